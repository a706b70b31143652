"""Which pages may open a socket: ours. A program without an Origin needs a token: it has no cookie to be misused."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import validate_host

App = Callable[[Any, Any, Any], Awaitable[None]]


class OriginCheck:
    """Refuses the handshake (HTTP 403) of a foreign page, and of a program that brings a cookie but no token."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        origin = headers.get(b"origin", b"").decode("latin-1")
        is_program = headers.get(b"authorization", b"")[:7].lower() == b"bearer "
        if is_allowed(origin, headers.get(b"host", b"").decode("latin-1"), is_program=is_program):
            await self.app(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})


def is_allowed(origin: str, host: str, *, is_program: bool) -> bool:
    """Say whether a handshake with this Origin (empty: none) may go on."""
    if not origin:
        return is_program
    parts = urlsplit(origin)
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    # The page's own host, as the proxy passed it on; the host must be one of ours, or DNS rebinding gets through.
    return (
        parts.scheme in ("http", "https")
        and parts.netloc == host
        and validate_host((parts.hostname or "").lower(), settings.ALLOWED_HOSTS)
    )
