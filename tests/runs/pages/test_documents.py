import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from runs.ids import text_id
from runs.models import Document


def upload(client, *files):
    return client.post(
        "/documents/", {"do": "upload", "files": [SimpleUploadedFile(name, data) for name, data in files]}
    )


def test_files_are_uploaded_listed_and_deleted(as_owner):
    assert upload(as_owner, ("a.txt", b"Alpha."), ("b.md", b"# Beta")).status_code == 302
    page = as_owner.get("/documents/").content.decode()
    assert "a.txt" in page
    assert "1 passage" in page
    document = Document.objects.get(name="a.txt")
    answer = as_owner.post(f"/documents/{text_id('doc', document.pk)}/delete/")
    assert answer["Location"] == "/documents/"
    assert not Document.objects.filter(name="a.txt").exists()


def test_deleting_with_htmx_gives_the_list_again(as_owner):
    upload(as_owner, ("a.txt", b"Alpha."))
    address = f"/documents/{text_id('doc', Document.objects.get().pk)}/delete/"
    page = as_owner.post(address, headers={"HX-Request": "true"})
    assert b'id="documents"' in page.content
    assert b"a.txt" not in page.content


def test_a_file_that_cannot_be_read_is_kept_with_its_reason(as_owner):
    upload(as_owner, ("broken.pdf", b"%PDF-1.4 nonsense"))
    assert Document.objects.get().error
    assert b"broken.pdf" in as_owner.get("/documents/").content


def test_a_file_without_a_usable_name_is_named_in_the_answer(as_owner):
    page = upload(as_owner, ("...", b"x"))
    assert page.status_code == 400
    assert b"no usable name" in page.content


def test_no_file_is_a_sentence(as_owner):
    assert b"Choose a file first." in as_owner.post("/documents/", {"do": "upload"}).content


@pytest.mark.parametrize("address", ["/documents/", "/runs/new/"])
def test_a_body_of_two_hundred_megabytes_is_refused_before_it_is_read(owner, address):
    class Unread:
        def read(self, *_args):
            raise AssertionError("the body was read")

        readline = read

    client = Client(enforce_csrf_checks=True)
    client.force_login(owner.user)
    big = {"CONTENT_LENGTH": str(200 << 20), "wsgi.input": Unread()}
    answer = client.generic("POST", address, b"", content_type="multipart/form-data; boundary=x", **big)
    assert answer.status_code == 413
    assert b"That is too large" in answer.content


def test_one_file_above_the_limit_is_named(as_owner, monkeypatch):
    from runs.documents import services

    monkeypatch.setattr(services, "CHUNK_BYTES", 1 << 20)
    page = upload(as_owner, ("big.txt", b"x" * ((20 << 20) + 1)))
    assert page.status_code == 400
    assert b"big.txt" in page.content
    assert not Document.objects.exists()


def test_a_viewer_may_look_and_nothing_more(viewer, owner, signed_in, as_owner):
    upload(as_owner, ("a.txt", b"Alpha."))
    client = signed_in(viewer)
    page = client.get("/documents/").content.decode()
    assert "a.txt" in page
    assert 'type="file"' not in page
    assert upload(client, ("b.txt", b"x")).status_code == 403
    assert client.post(f"/documents/{text_id('doc', Document.objects.get().pk)}/delete/").status_code == 403
    assert Document.objects.count() == 1


def test_foreign_documents_are_not_there(outsider, signed_in, as_owner):
    upload(signed_in(outsider), ("secret.txt", b"x"))
    assert b"secret.txt" not in as_owner.get("/documents/").content
    assert as_owner.post(f"/documents/{text_id('doc', Document.objects.get().pk)}/delete/").status_code == 404
    assert as_owner.post("/documents/doc_x/delete/").status_code == 404


def test_a_hostile_file_name_stays_text(as_owner):
    upload(as_owner, ("<img src=x onerror=alert(1)>.txt", b"x"))
    assert b"<img" not in as_owner.get("/documents/").content


def test_the_samples_are_loaded_once(as_owner):
    as_owner.post("/documents/", {"do": "samples"})
    count = Document.objects.count()
    as_owner.post("/documents/", {"do": "samples"})
    assert Document.objects.count() == count > 0
