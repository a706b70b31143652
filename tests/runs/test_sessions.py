"""Session cookies that nobody was given."""

import pytest
from django.conf import settings
from django.test import Client

from runs.access import Actor
from runs.sessions import SessionStore

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("key", ["aaaaaaaaaaaaaaaa\x00", "\ud800aaaaaaaaaaaa", "aaaaaaaa aaaaaaaa", "\xff" * 40])
def test_a_cookie_that_no_session_can_have_is_nobody(key: str) -> None:
    """PostgreSQL stores no U+0000: each page, and the way to sign in, was a 500."""
    assert SessionStore(key).session_key is None
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = "x"
    client.cookies[settings.SESSION_COOKIE_NAME].set(settings.SESSION_COOKIE_NAME, key, coded_of(key))
    assert client.get("/login/").status_code == 200
    assert client.get("/api/v1/runs").status_code == 401
    assert client.get("/runs/").status_code == 302


def coded_of(key: str) -> str:
    """Write it as a cookie does."""
    return '"' + "".join(c if " " <= c <= "~" else f"\\{ord(c) & 255:03o}" for c in key) + '"'


def test_a_session_of_ours_is_found(owner: Actor) -> None:
    client = Client()
    client.force_login(owner.user)
    assert client.get("/runs/").status_code == 200
    assert SessionStore(client.cookies[settings.SESSION_COOKIE_NAME].value).exists(
        client.cookies[settings.SESSION_COOKIE_NAME].value
    )
