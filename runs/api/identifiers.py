"""What every call reads from its address and headers: ids, an idempotency key, the version that was seen."""

import re

from django.http import HttpRequest
from django.utils.translation import gettext as _

from runs.api.problems import BadRequest

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_VERSION = re.compile(r'"?(\d{1,18})(-\d{1,18})?"?')


def idempotency_key_of(request: HttpRequest) -> str | None:
    """Read the Idempotency-Key header; None when it was not sent.

    Raises: BadRequest when it is empty, longer than 255 characters, or not visible ASCII.
    """
    key = request.headers.get("Idempotency-Key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise BadRequest(
            _("An Idempotency-Key has 1 to 255 visible ASCII characters and no spaces."), param="Idempotency-Key"
        )
    return key


def if_match_of(request: HttpRequest) -> int:
    """Read the version that the caller saw, from If-Match.

    Raises: BadRequest when it is missing or no version.
    """
    header = request.headers.get("If-Match")
    if header is None:
        raise BadRequest(
            _("Send If-Match with the version that you decided on, so that two people cannot overwrite each other."),
            param="If-Match",
            code="if_match_required",
        )
    found = _VERSION.fullmatch(header.strip())
    if found is None:
        raise BadRequest(_("If-Match is the version in quotes, as in the ETag."), param="If-Match")
    return int(found[1])


def is_unchanged(request: HttpRequest, etag: str) -> bool:
    """Say whether If-None-Match names this ETag (weak comparison, as a read wants)."""
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    named = {tag.strip().removeprefix("W/") for tag in header.split(",")}
    return "*" in named or etag in named
