"""Hostile and broken files. Each goes through the real child process."""

import io
import time
import zipfile
import zlib

import pytest
from docx import Document as WordDocument
from pypdf import PdfReader, PdfWriter

from runs.documents.extract import extract
from runs.documents.sample.make import make_docx, make_pdf

TEXT = "The ferry leaves at nine.\n\nIt comes back at noon."


def encrypted(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(make_pdf(TEXT))))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def many_pages(count: int) -> bytes:
    return make_pdf("\n---\n".join(f"Page number {n}." for n in range(count)))


def zip_bomb() -> bytes:
    """Return a docx of some 200 KB whose document unpacks to 200 MB."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("word/document.xml", b" " * (200 << 20))
    return out.getvalue()


def pdf_bomb() -> bytes:
    """Return a PDF whose only page's content unpacks to 3 GB in two steps."""
    plain = zlib.compress(b"(a) Tj " * (1 << 20) * 64, 9)
    twice = zlib.compress(plain * 8, 9)
    pdf = make_pdf(TEXT)
    stream = b"5 0 obj\n<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%b\nendstream\nendobj\n"
    start, end = pdf.index(b"5 0 obj"), pdf.index(b"xref")
    return pdf[:start] + stream % (len(twice), twice) + pdf[end:]


def entity_bomb() -> bytes:
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10 if n else "x" * 100}">' for n in range(10))
    body = f'<?xml version="1.0"?><!DOCTYPE d [{entities}]><w:document xmlns:w="w"><w:body>&e9;</w:body></w:document>'
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(make_docx(TEXT))) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            target.writestr(name, body if name == "word/document.xml" else source.read(name))
    return out.getvalue()


def renamed_zip() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("photo.txt", "hello")
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("empty.txt", b"", "is empty"),
        ("blank.md", b" \n\n\t ", "holds no text"),
        ("tool.exe", b"MZ\x90", "of a kind that cannot be read"),
        ("no-extension", b"hello", "of a kind that cannot be read"),
        ("program.txt", b"\x7fELF\x02\x01\x01\x00\x00", "no text file"),
        ("noise.txt", bytes(range(1, 32)) * 40, "no text file"),
        ("half.txt", b"\xff\xfea\x00b", "damaged"),
        ("really-a-pdf.txt", make_pdf(TEXT), "is named .txt but is a PDF"),
        ("text.pdf", b"just words", "is named .pdf but is something else or damaged"),
        ("word.pdf", make_docx(TEXT), "is named .pdf but is a Word document"),
        ("photos.docx", renamed_zip(), "is named .docx but is a zip archive"),
        ("old.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 600, "password"),
        ("cut.docx", make_docx(TEXT)[:4000], "named .docx but is a zip archive"),
        ("broken.pdf", b"%PDF-1.4\n" + b"garbage " * 50, "damaged PDF"),
        ("secret.pdf", encrypted("secret"), "protected by a password"),
        ("scan.pdf", make_pdf(" "), "holds no text"),
        ("long.pdf", many_pages(501), "has 501 pages; at most 500"),
        ("bomb.docx", zip_bomb(), "unpacks to more than 100 MB"),
        ("endless.txt", b"word " * 500_000, "holds more than 2,000,000 characters"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(name: str, data: bytes, reason: str) -> None:
    extracted = extract(name, data)
    assert extracted.passages == ()
    assert extracted.error is not None
    assert reason in extracted.error
    assert len(extracted.error) <= 300


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("bomb.pdf", pdf_bomb),
        ("entities.docx", entity_bomb),
        ("deep.html", lambda: b"<div>" * 200_000 + b"deep" + b"</div>" * 200_000),
    ],
)
def test_a_hostile_file_costs_a_bounded_time(name: str, make: object) -> None:
    data = make()  # type: ignore[operator]
    started = time.monotonic()
    extracted = extract(name, data, timeout_seconds=10)
    assert time.monotonic() - started < 12
    assert extracted.error is not None or len(extracted.passages) < 2000


def test_the_child_is_gone_when_the_time_is_over() -> None:
    extracted = extract("endless.html", b"<p>word</p>" * 400_000, timeout_seconds=0.2)
    assert extracted.error == "takes too long to read"


def test_a_pdf_with_an_empty_password_is_read() -> None:
    assert "ferry" in extract("open.pdf", encrypted("")).passages[0].text


def test_each_kind_gives_its_text_and_place() -> None:
    html = (
        b"<html><head><title>T</title><style>p{}</style></head><body><script>var evil</script><h1>Ferries</h1>"
        b"<p>The <b>first</b> ferry<br>leaves at nine.</p><table><tr><td>Noon</td><td>return</td></tr></table></body>"
    )
    read = extract("a.html", html).passages[0]
    assert read.place == "Ferries"
    assert read.text == "The first ferry\nleaves at nine.\n\nNoon | return"
    assert extract("a.md", b"# Ferries\n\nThe **first** one.\n\n```\n# no heading\n```\n").passages[0].text == (
        "The first one.\n\n# no heading"
    )
    assert extract("a.txt", TEXT.encode()).passages[0].place == "lines 1-3"
    assert [p.place for p in extract("a.pdf", many_pages(2)).passages] == ["page 1 / page 2"]
    assert extract("a.docx", make_docx(f"# Ferries\n\n{TEXT}")).passages[0].place == "Ferries"


def test_tables_of_a_word_document_are_read_in_their_place() -> None:
    document = WordDocument()
    document.add_heading("Prices", level=1)
    table = document.add_table(rows=1, cols=2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "Adult", "14 euros"
    out = io.BytesIO()
    document.save(out)
    assert extract("a.docx", out.getvalue()).passages[0].text == "Adult | 14 euros"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "gb18030"])
def test_chinese_text_is_read_in_its_usual_encodings(encoding: str) -> None:
    assert extract("a.txt", "值班电话是四四零零".encode(encoding)).passages[0].text == "值班电话是四四零零"


def test_old_western_text_is_read() -> None:
    assert extract("a.txt", "Café à Genève".encode("cp1252")).passages[0].text == "Café à Genève"


def test_the_child_sees_no_environment_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONSTARTUP", "/nonexistent")
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    assert extract("a.txt", b"hello there").error is None
