import io

import pytest

from runs.access import Actor
from runs.documents.selectors import get_document, passages_of, visible_documents
from runs.documents.services import delete_document, load_samples, safe_name, upload_document
from runs.errors import InvalidInput, NotAllowed, NotFound, TooLarge
from runs.models import Document

TEXT = b"The ferry leaves at nine."


class Endless(io.RawIOBase):
    """A 200 MB upload that counts how much of it was read."""

    def __init__(self, size: int) -> None:
        self.left = size
        self.taken = 0

    def read(self, size: int = -1, /) -> bytes:
        count = min(size, self.left)
        self.left -= count
        self.taken += count
        return b"x" * count


def upload(actor: Actor, name: str = "a.txt", data: bytes = TEXT) -> Document:
    return upload_document(actor=actor, name=name, content_type="text/plain", data=data)


def test_an_upload_becomes_passages(owner: Actor) -> None:
    document = upload_document(actor=owner, name="a.txt", content_type="text/plain", data=io.BytesIO(TEXT))
    assert document.error is None
    assert document.size_bytes == len(TEXT)
    assert [passage.text for passage in passages_of(document)] == [TEXT.decode()]


def test_the_same_file_twice_is_one_document(owner: Actor, teammate: Actor) -> None:
    assert upload(owner).pk == upload(teammate).pk
    assert upload(owner, "b.txt").pk != upload(owner).pk
    assert Document.objects.count() == 2


def test_tenants_do_not_share_a_document(owner: Actor, outsider: Actor) -> None:
    document = upload(owner)
    assert upload(outsider).pk != document.pk
    assert document not in visible_documents(outsider)
    with pytest.raises(NotFound):
        get_document(outsider, document.pk)


def test_a_file_that_cannot_be_read_is_kept_with_the_reason(owner: Actor) -> None:
    document = upload(owner, "broken.pdf", b"%PDF-1.7 nothing")
    assert "damaged PDF" in (document.error or "")
    assert not passages_of(document).exists()


def test_a_200_mb_upload_is_refused_after_the_limit_and_leaves_nothing(owner: Actor) -> None:
    data = Endless(200 << 20)
    with pytest.raises(TooLarge) as caught:
        upload_document(actor=owner, name="big.txt", content_type="text/plain", data=data)  # type: ignore[arg-type]
    assert caught.value.field == "file"
    assert data.taken < 21 << 20
    assert not Document.objects.exists()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("report.txt", "report.txt"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\me\\plan.docx", "plan.docx"),
        ("a\x00b\ud800c.txt", "abc.txt"),
        ("\u202efdp.exe.txt", "fdp.exe.txt"),
        ("  two   spaces .md ", "two spaces .md"),
        ("值班手册.md", "值班手册.md"),
        ("n" * 300 + ".pdf", "n" * 196 + ".pdf"),
    ],
)
def test_names_are_made_safe(given: str, kept: str) -> None:
    assert safe_name(given) == kept


@pytest.mark.parametrize("name", ["", "   ", "..", "\x00", "dir/"])
def test_a_name_without_a_letter_is_refused(owner: Actor, name: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        upload(owner, name)
    assert caught.value.field == "file"


def test_an_odd_content_type_is_not_stored(owner: Actor) -> None:
    document = upload_document(actor=owner, name="a.txt", content_type='text/html"><script>', data=TEXT)
    assert document.content_type == "application/octet-stream"


def test_a_viewer_may_look_but_not_upload(viewer: Actor, owner: Actor) -> None:
    upload(owner)
    assert [d.name for d in visible_documents(viewer)] == ["a.txt"]
    with pytest.raises(NotAllowed):
        upload(viewer, "b.txt")


def test_only_the_uploader_and_operators_delete(
    owner: Actor, teammate: Actor, operator: Actor, outsider: Actor
) -> None:
    first, second = upload(owner), upload(owner, "b.txt")
    with pytest.raises(NotAllowed):
        delete_document(actor=teammate, document_id=first.pk)
    with pytest.raises(NotFound):
        delete_document(actor=outsider, document_id=first.pk)
    delete_document(actor=owner, document_id=first.pk)
    delete_document(actor=operator, document_id=second.pk)
    assert not Document.objects.exists()


def test_samples_are_all_readable_and_loading_twice_changes_nothing(owner: Actor) -> None:
    first = load_samples(owner)
    assert len(first) == 7
    assert [document.error for document in first] == [None] * 7
    assert {d.name.rpartition(".")[2] for d in first} == {"md", "txt", "html", "pdf", "docx"}
    assert [d.pk for d in load_samples(owner)] == [d.pk for d in first]
    assert Document.objects.count() == 7


def test_words_that_postgresql_reads_as_syntax_are_stored_as_text(owner: Actor) -> None:
    hostile = "a' | !b & (c):*  \\ <-> 'd' \x1b \u0000 end".encode() + b" word" * 5
    document = upload(owner, "syntax.md", hostile.replace(b"\x00", b""))
    assert document.error is None
