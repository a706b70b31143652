"""Which pages may open a socket."""

from typing import Any

import pytest

from streaming.origin import is_allowed


@pytest.mark.parametrize(
    ("origin", "host", "is_program", "allowed"),
    [
        ("http://ours.example", "ours.example", False, True),
        ("https://ours.example:8443", "ours.example:8443", False, True),
        ("https://trusted.example", "ours.example", False, True),
        ("http://evil.example", "ours.example", False, False),
        ("http://evil.example", "ours.example", True, False),
        ("http://evil.example", "evil.example", False, False),
        ("http://ours.example", "ours.example:81", False, False),
        ("http://ours.example.evil.example", "ours.example", False, False),
        ("file://ours.example", "ours.example", False, False),
        ("null", "ours.example", False, False),
        ("", "ours.example", False, False),
        ("", "ours.example", True, True),
    ],
)
def test_only_our_own_pages_and_programs_with_a_token(
    settings: Any, origin: str, host: str, is_program: bool, allowed: bool
) -> None:
    settings.ALLOWED_HOSTS = ["ours.example"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://trusted.example"]
    assert is_allowed(origin, host, is_program=is_program) is allowed
