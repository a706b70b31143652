import pytest
from django.http import Http404

from runs.ids import new_id, text_id
from runs.pages.visits import read_id


def test_an_id_is_read_back():
    value = new_id()
    assert read_id("run", text_id("run", value)) == value


@pytest.mark.parametrize("text", ["", "run_", "op_" + "0" * 32, "run_" + "G" * 32, "run_" + "0" * 33, "\x00"])
def test_what_is_no_id_is_not_found(text):
    with pytest.raises(Http404):
        read_id("run", text)


def test_a_deactivated_person_is_signed_out(owner, as_owner):
    owner.user.is_active = False
    owner.user.save(update_fields=["is_active"])
    assert as_owner.get("/runs/")["Location"].startswith("/login/")


def test_the_frame_says_who_one_is_and_where(owner, as_owner):
    page = as_owner.get("/runs/").content.decode()
    assert "Acme · runner" in page


def test_sign_in_and_out(owner, client):
    page = client.get("/login/").content.decode()
    assert 'autocomplete="current-password"' in page
    wrong = client.post("/login/", {"username": "owner", "password": "nonsense"})
    assert b'role="alert"' in wrong.content
    right = client.post("/login/", {"username": "owner", "password": "a long password 1", "next": "/documents/"})
    assert right["Location"] == "/documents/"
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/runs/").status_code == 302


def test_sign_in_leads_nowhere_else(owner, client):
    data = {"username": "owner", "password": "a long password 1", "next": "https://evil.invalid/"}
    assert client.post("/login/", data)["Location"] == "/runs/"


def test_the_root_leads_to_the_runs(client, db):
    assert client.get("/")["Location"] == "/runs/"
