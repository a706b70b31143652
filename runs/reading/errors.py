"""What a reader of a stream may meet. The first two end it; the others cut a connection, and the reader comes back.

StreamError
+-- StreamRefused           the server's last word (close codes 4500-4999, HTTP 4xx): coming back would not help
|   +-- BadProtocol         4500: the cursor or the request is malformed
|   +-- NotSignedIn         4501: no token, a wrong one, or one that has ended meanwhile
|   +-- Forbidden           4503: no right to read it, or none any more
|   +-- UnknownRun          4504: no such run for this caller
+-- StreamLost              no contact for so long that the reader gave up; the run goes on at the server
Cut                         the connection is gone, or must be dropped
+-- OutOfStep               what came does not follow the cursor: a hole is never skipped
"""

from typing import ClassVar

FIRST_FINAL_CODE = 4500


class StreamError(Exception):
    """The stream cannot be read on. The run itself goes on, or has ended, all the same."""


class StreamRefused(StreamError):
    """The server's last word. `code` is the close code of docs/PROTOCOL.md, `reason` its word for why."""

    CODE: ClassVar[int] = 4999
    NEXT_MOVE: ClassVar[str] = "Reading it again in the same way gives the same answer."

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"The server closed the stream for good ({code} {reason}). {self.NEXT_MOVE}")
        self.code, self.reason = code, reason


class BadProtocol(StreamRefused):
    """The cursor or the request is malformed."""

    CODE = 4500
    NEXT_MOVE = "Check the cursor: it is <stream_id>:<seq>, as an event gave it."


class NotSignedIn(StreamRefused):
    """There is no token, a wrong one, or one that has ended meanwhile."""

    CODE = 4501
    NEXT_MOVE = "Get a token that is valid, and go on with the same cursor."


class Forbidden(StreamRefused):
    """The caller has no right to read the run, or has none any more."""

    CODE = 4503
    NEXT_MOVE = "Ask an admin of the tenant for the right to read runs."


class UnknownRun(StreamRefused):
    """There is no such run for this caller; a run of another tenant looks the same."""

    CODE = 4504
    NEXT_MOVE = "Check the run's id and the tenant of the token."


class StreamLost(StreamError):
    """There was no contact for `seconds`. `cursor` is where to go on, None before the first event."""

    def __init__(self, *, seconds: float, reason: str, cursor: str | None) -> None:
        super().__init__(
            f"No contact for {seconds:.0f} s ({reason}). The run goes on at the server; follow it again after {cursor}."
        )
        self.seconds, self.reason, self.cursor = seconds, reason, cursor


class Cut(Exception):
    """The connection is gone or must be dropped; the reader comes back with its cursor.

    Args: retry_after: seconds that the server asked for; is_blocked: the host was reached, yet what came is no answer
    of ours, as behind a proxy that does not know this transport.
    """

    def __init__(self, reason: str, *, retry_after: float = 0.0, is_blocked: bool = False) -> None:
        super().__init__(reason)
        self.retry_after, self.is_blocked = retry_after, is_blocked


class OutOfStep(Cut):
    """What came does not follow the cursor."""


_BY_CODE = {kind.CODE: kind for kind in (BadProtocol, NotSignedIn, Forbidden, UnknownRun)}
_BY_STATUS = {400: BadProtocol, 401: NotSignedIn, 403: Forbidden, 404: UnknownRun}


def refusal(code: int, reason: str) -> StreamRefused:
    """Make the error of a final close code."""
    return _BY_CODE.get(code, StreamRefused)(code, reason)


def refusal_of_status(status: int, reason: str) -> StreamRefused:
    """Make the error of an HTTP status that is final (4xx)."""
    kind = _BY_STATUS.get(status, StreamRefused)
    return kind(kind.CODE, reason)
