"""What `outlive doctor` and the page /connection/ ask: how a request arrived here, the limits in force, a test stream.

The test stream is sent as the streams of runs are (same answer, same headers) and says something at stated times, so
that whoever reads it can tell what is held back on the way.
"""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Annotated, Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from ninja import Query, Router
from pydantic import BaseModel

from runs.api.answers import json_answer
from runs.conf import Limits, limits
from runs.frames import write_time
from streaming.origin import is_allowed
from streaming.protocol import HEARTBEAT_SECONDS, Control, sse_control
from streaming.sse import HEADERS

router = Router(tags=["diagnostics"])
MOST_BEATS = 40


class LimitOut(BaseModel):
    """One tunable: the environment variable that sets it, its value here, and what it is without one."""

    name: str
    variable: str
    value: float
    default: float


class ArrivalOut(BaseModel):
    """How this request arrived, after whatever stands in between."""

    host: str
    is_https: bool
    is_origin_accepted: bool | None


class DiagnosticsOut(BaseModel):
    """What an installation is set to, and how it sees its caller. `is_origin_accepted`: null without an Origin."""

    object: str
    server_time: str
    base_url: str
    has_secure_cookies: bool
    heartbeat_s: float
    arrived: ArrivalOut
    limits: list[LimitOut]


@router.get("/diagnostics", response={200: DiagnosticsOut}, operation_id="diagnostics")
def diagnostics(request: HttpRequest) -> HttpResponse:
    """Say how this request arrived here and which limits are in force."""
    origin = request.headers.get("Origin", "")
    host = request.headers.get("Host", "")
    body = {
        "object": "diagnostics",
        "server_time": write_time(datetime.now(UTC)),
        "base_url": settings.BASE_URL,
        "has_secure_cookies": settings.SESSION_COOKIE_SECURE,
        "heartbeat_s": HEARTBEAT_SECONDS,
        "arrived": {
            "host": host,
            "is_https": request.is_secure(),
            "is_origin_accepted": is_allowed(origin, host, is_program=False) if origin else None,
        },
        "limits": _limits(),
    }
    return json_answer(body, headers={"Cache-Control": "no-store"})


@router.get("/diagnostics/stream", response={200: None}, operation_id="diagnostics_stream")
def diagnostics_stream(
    request: HttpRequest,
    beats: Annotated[int, Query(ge=1, le=MOST_BEATS)] = 4,
    every: Annotated[float, Query(ge=0.1, le=15)] = 0.5,
) -> StreamingHttpResponse:
    """Send `beats` server-sent events, one each `every` seconds: a test stream that belongs to no run."""
    return StreamingHttpResponse(_beats(beats, every), content_type="text/event-stream", headers=HEADERS)


async def _beats(count: int, every_seconds: float) -> AsyncGenerator[bytes, None]:
    for number in range(count):
        if number:
            await asyncio.sleep(every_seconds)
        yield sse_control(Control("beat", {"n": number, "server_time": write_time(datetime.now(UTC))}))


def _limits() -> list[dict[str, Any]]:
    now = limits()
    return [
        {
            "name": field.name,
            "variable": f"OUTLIVE_{field.name.upper()}",
            "value": getattr(now, field.name),
            "default": field.default,
        }
        for field in fields(Limits)
    ]
