"""How the errors of httpx and websockets become cuts: what ended the connection, and whether it may be blocked."""

from typing import Any

import httpx
import httpx_sse
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from runs.reading.errors import FIRST_FINAL_CODE, Cut
from runs.reading.items import Frame
from streaming.client.answers import judge_handshake

CUT_BY_HTTP = (httpx.RequestError, httpx_sse.SSEError)
# ValueError: a proxy sends us elsewhere (to its page for signing in), and that is no address at all.
CUT_BY_SOCKET = (WebSocketException, OSError, ValueError)
_NEVER_THERE = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def cut_by_http(error: Exception) -> Cut:
    """Make the cut of an error of httpx."""
    return Cut(str(error) or type(error).__name__, is_blocked=not isinstance(error, _NEVER_THERE))


def cut_by_socket(error: Exception) -> Cut:
    """Make the cut of a WebSocket that could not be opened."""
    if isinstance(error, InvalidStatus):
        return judge_handshake(error.response.status_code, error.response.headers)
    # A handshake that takes too long may be a proxy that swallows it. Everything else of the kind is the network.
    is_blocked = not isinstance(error, OSError) or isinstance(error, TimeoutError)
    return Cut(str(error) or type(error).__name__, is_blocked=is_blocked)


def last_word(error: ConnectionClosed) -> Frame:
    """Give the closing frame that a close code stands for, should none have come before it. Raises: Cut."""
    closed: Any = error.rcvd
    if closed is not None and FIRST_FINAL_CODE <= closed.code < 5000:
        return {"type": "closing", "code": closed.code, "reason": closed.reason}
    raise Cut(str(error)) from error
