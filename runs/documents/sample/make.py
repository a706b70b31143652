"""Make a Word document and a PDF out of plain text: the same text always gives the same bytes.

In the text "# " begins a heading and "---" a new page; paragraphs are divided by empty lines. The PDF has one plain
font and Latin-1 letters only; it is a sample, not a typesetter.
"""

import io
import textwrap
import zipfile

from docx import Document

LINE_CHARS = 88


def make_docx(text: str) -> bytes:
    """Return a Word document with headings and paragraphs."""
    document = Document()
    for block in _blocks(text):
        if block.startswith("# "):
            document.add_heading(block[2:], level=1)
        elif block != "---":
            document.add_paragraph(block)
    raw = io.BytesIO()
    document.save(raw)
    return _without_times(raw.getvalue())


def make_pdf(text: str) -> bytes:
    """Return a PDF with one page for each part between "---". A part longer than 50 lines runs off its page."""
    pages = [_page(_blocks(part)) for part in text.split("\n---\n")]
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%b] >>"
        % (len(pages), b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for index, content in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] "
            b"/Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>" % (5 + 2 * index)
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    return _file(objects)


def _blocks(text: str) -> list[str]:
    return [block.replace("\n", " ") for block in text.strip().split("\n\n")]


def _without_times(data: bytes) -> bytes:
    """Write the archive again with the time of day taken out of its entries."""
    clean = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(clean, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0)), source.read(name), zipfile.ZIP_DEFLATED)
    return clean.getvalue()


def _page(blocks: list[str]) -> bytes:
    lines: list[bytes] = [b"BT /F1 11 Tf 14 TL 60 780 Td"]
    for block in blocks:
        for line in textwrap.wrap(block.removeprefix("# "), LINE_CHARS):
            escaped = line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
            lines.append(b"(%b) Tj T*" % escaped.encode("latin-1"))
        lines.append(b"T*")
    return b"\n".join([*lines, b"ET"])


def _file(objects: list[bytes]) -> bytes:
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)
