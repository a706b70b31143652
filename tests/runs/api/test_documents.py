"""Documents over HTTP: many at once, all or none, bounded before they are read."""

from io import BytesIO
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, RequestFactory

from runs.api.problems import TooLarge
from runs.api.schemas import DocumentOut, ListOut
from runs.api.uploads import guard_upload
from runs.conf import limits
from runs.models import Document
from tests.runs.api.conftest import Caller, error_of


def upload(caller: Caller, *files: SimpleUploadedFile, field: str = "file") -> Any:
    return caller.client.post(
        "/api/v1/documents", {field: list(files)}, headers={"Authorization": f"Bearer {caller.token}"}
    )


def a_file(
    name: str = "a.txt", content: bytes = b"Some words to find.", kind: str = "text/plain"
) -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content, kind)


def test_several_files_in_one_request_are_201_and_listed_newest_first(owner: Caller) -> None:
    response = upload(owner, a_file("a.txt"), a_file("b.md", b"# B\n\nMore words.", "text/markdown"))
    assert response.status_code == 201
    ListOut[DocumentOut].model_validate(response.json())
    assert [item["name"] for item in response.json()["data"]] == ["a.txt", "b.md"]
    listed = owner.get("/documents").json()
    assert {item["name"] for item in listed["data"]} == {"a.txt", "b.md"}
    assert [item["name"] for item in owner.get("/documents?q=b.m").json()["data"]] == ["b.md"]
    one = response.json()["data"][0]
    assert owner.get(f"/documents/{one['id']}").json() == one


def test_the_same_file_again_is_the_same_document(owner: Caller) -> None:
    first, second = upload(owner, a_file()).json(), upload(owner, a_file()).json()
    assert first["data"] == second["data"]
    assert Document.objects.count() == 1


def test_a_file_that_cannot_be_read_is_kept_with_the_reason(owner: Caller) -> None:
    response = upload(owner, a_file("broken.pdf", b"%PDF-1.7 nonsense", "application/pdf"))
    assert response.status_code == 201
    assert response.json()["data"][0]["error"]


def test_one_file_without_a_usable_name_refuses_all_of_them(owner: Caller) -> None:
    response = upload(owner, a_file("good.txt"), a_file("...", b"x"))
    assert response.status_code == 400
    assert error_of(response)["param"] == "file"
    assert Document.objects.count() == 0


def test_a_request_without_files_is_400(owner: Caller) -> None:
    assert error_of(upload(owner))["param"] == "file"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
def test_an_upload_that_is_no_form_is_415(owner: Caller, kind: str) -> None:
    response = owner.call("POST", "/documents", b"{}", content_type=kind)
    assert response.status_code == 415
    assert error_of(response)["param"] == "Content-Type"


@pytest.mark.parametrize("raw", [b"--x\r\n", b"nonsense", b'--x\r\nContent-Disposition: form-data; name="file"'])
def test_a_broken_form_is_400(owner: Caller, raw: bytes) -> None:
    for kind in ("multipart/form-data; boundary=x", "multipart/form-data"):
        response = owner.call("POST", "/documents", raw, content_type=kind)
        assert response.status_code == 400, (kind, response.content)
        error_of(response)
    assert Document.objects.count() == 0


class Unreadable(BytesIO):
    """A body that must not be read."""

    def read(self, *args: Any) -> bytes:
        raise AssertionError("the body was read")


def test_200_megabytes_are_413_by_their_content_length_before_a_byte_is_read(owner: Caller) -> None:
    response = owner.client.request(
        REQUEST_METHOD="POST", PATH_INFO="/api/v1/documents", CONTENT_TYPE="multipart/form-data; boundary=x",
        CONTENT_LENGTH=str(200 << 20), HTTP_AUTHORIZATION=f"Bearer {owner.token}", **{"wsgi.input": Unreadable()},
    )  # fmt: skip
    assert response.status_code == 413
    assert error_of(response)["code"] == "too_large"


def test_a_stranger_is_refused_before_a_byte_is_read(db: None) -> None:
    response = Client().request(
        REQUEST_METHOD="POST", PATH_INFO="/api/v1/documents", CONTENT_TYPE="multipart/form-data; boundary=x",
        CONTENT_LENGTH="1000", **{"wsgi.input": Unreadable()},
    )  # fmt: skip
    assert response.status_code == 401


def test_a_file_above_the_limit_is_413_and_nothing_of_the_request_is_stored(owner: Caller) -> None:
    large = a_file("large.txt", b"x" * (limits().max_upload_bytes + 1))
    response = upload(owner, a_file("small.txt"), large)
    assert response.status_code == 413
    error = error_of(response)
    assert error["param"] == "file"
    assert "large.txt" in error["message"]
    assert Document.objects.count() == 0


@pytest.mark.parametrize("length", ["x", "-1", "1e9", "\u0663"])
def test_a_content_length_that_is_no_number_is_400(owner: Caller, length: str) -> None:
    response = owner.client.request(
        REQUEST_METHOD="POST", PATH_INFO="/api/v1/documents", CONTENT_TYPE="multipart/form-data; boundary=x",
        CONTENT_LENGTH=length, HTTP_AUTHORIZATION=f"Bearer {owner.token}",
    )  # fmt: skip
    assert response.status_code == 400
    assert error_of(response)["param"] == "Content-Length"


def test_the_bound_holds_without_a_content_length() -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="file"; filename="l.txt"\r\n\r\n'
    body += b"x" * (limits().max_upload_bytes + 1) + b"\r\n--x--\r\n"
    request = RequestFactory().generic("POST", "/", body, content_type="multipart/form-data; boundary=x")
    request.META["CONTENT_LENGTH"] = "0"
    guard_upload(request)
    request.META["CONTENT_LENGTH"] = str(len(body))  # Django itself needs it; the guard saw none
    with pytest.raises(TooLarge) as raised:
        assert request.FILES
    assert raised.value.param == "file"


def test_only_who_uploaded_it_or_an_operator_may_delete_a_document(
    owner: Caller, teammate: Caller, operator: Caller, outsider: Caller, viewer: Caller
) -> None:
    document_id = upload(owner, a_file()).json()["data"][0]["id"]
    path = f"/documents/{document_id}"
    assert outsider.call("DELETE", path).status_code == 404
    assert outsider.get(path).status_code == 404
    assert teammate.call("DELETE", path).status_code == 403
    assert viewer.call("DELETE", path).status_code == 403
    assert viewer.get(path).status_code == 200
    assert upload(viewer, a_file("v.txt")).status_code == 403
    response = owner.call("DELETE", path)
    assert (response.status_code, response.content) == (204, b"")
    assert owner.call("DELETE", path).status_code == 404
    other = upload(owner, a_file("b.txt")).json()["data"][0]["id"]
    assert operator.call("DELETE", f"/documents/{other}").status_code == 204


@pytest.mark.parametrize("document_id", ["doc_", "x", "doc_" + "0" * 32, "run_" + "0" * 32])
def test_a_malformed_or_unknown_document_is_404(owner: Caller, document_id: str) -> None:
    for method in ("GET", "DELETE"):
        assert error_of(owner.call(method, f"/documents/{document_id}"))["code"] == "not_found"
