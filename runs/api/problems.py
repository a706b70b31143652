"""What the API itself refuses before a service is asked: unreadable bodies, missing headers, wrong types.

    Problem
    +-- BadRequest          400  something in the request is wrong; `param` names it
    +-- NotSignedIn         401
    +-- CsrfFailed          403
    +-- NotInWorkspace      403
    +-- NoSuchThing         404
    +-- CursorExpired       410
    +-- TooLarge            413
    +-- WrongContentType    415

Errors of the domain are mapped to HTTP in runs/api/errors.py, and nowhere else.
"""

from typing import Any, ClassVar


class Problem(Exception):
    """An answer that is no success. `code` is stable English, `message` is for people."""

    status: ClassVar[int] = 400
    code: str = "invalid_request"

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code or type(self).code
        self.details = details or {}


class BadRequest(Problem):
    """The request is wrong and will be wrong again."""


class NotSignedIn(Problem):
    """No valid session and no valid token."""

    status = 401
    code = "not_signed_in"


class CsrfFailed(Problem):
    """A browser's request without the token of its own page."""

    status = 403
    code = "csrf_failed"


class NotInWorkspace(Problem):
    """Signed in, but a member of no tenant."""

    status = 403
    code = "no_workspace"


class NoSuchThing(Problem):
    """Nothing here, or nothing that this caller may know of."""

    status = 404
    code = "not_found"


class CursorExpired(Problem):
    """The events after this cursor cannot be given one by one: they are deleted, joined, or of another stream.

    details: reason, as in a stream's `gap` (docs/PROTOCOL.md), and earliest_seq, the oldest event that is left.
    """

    status = 410
    code = "cursor_expired"


class TooLarge(Problem):
    """More bytes than are taken; nothing was stored."""

    status = 413
    code = "too_large"


class WrongContentType(Problem):
    """A body of a kind that this address does not read."""

    status = 415
    code = "unsupported_media_type"
