import pytest
from django.core.exceptions import RequestDataTooBig
from django.test import Client, RequestFactory

from runs.pages import failures


def test_not_found_is_kind_and_names_the_request(as_owner):
    answer = as_owner.get("/nowhere/", headers={"X-Request-Id": "req_find-me-please"})
    assert answer.status_code == 404
    assert b"There is nothing at this address" in answer.content
    assert b"req_find-me-please" in answer.content


def test_not_found_also_works_signed_out(db):
    assert b"There is nothing at this address" in Client().get("/nowhere/").content


def test_a_bug_shows_a_page_that_needs_no_database(db, owner, monkeypatch):
    client = Client(raise_request_exception=False)
    client.force_login(owner.user)
    monkeypatch.setattr("runs.pages.lists.with_current_step", lambda _runs: 1 / 0)
    answer = client.get("/runs/")
    assert answer.status_code == 500
    assert b"Something broke on our side" in answer.content
    assert b"ZeroDivisionError" not in answer.content


def test_the_500_page_touches_no_database():
    answer = failures.broken(RequestFactory().get("/"))  # pytest-django fails any query here
    assert answer.status_code == 500


@pytest.mark.django_db
def test_too_many_fields_are_a_413(as_owner):
    answer = as_owner.post("/runs/demo/", {f"f{n}": "x" for n in range(1001)})
    assert answer.status_code == 413


@pytest.mark.django_db
def test_a_broken_body_is_a_400(as_owner):
    answer = as_owner.post("/runs/demo/", b"x", content_type="multipart/form-data; boundary=\x00")
    assert answer.status_code == 400
    assert b"made no sense" in answer.content


@pytest.mark.django_db
def test_a_body_above_the_memory_limit_is_a_413(rf):
    request = rf.get("/")
    assert failures.bad_request(request, RequestDataTooBig()).status_code == 413
