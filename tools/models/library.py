"""Speak our protocol through pydantic-ai's model layer: the part that all hosted providers share.

Only the model layer is used (messages, models, providers, direct.model_request_stream); no agents, no tool running,
no retries. Each call has an HTTP client of its own: it works in any event loop, and closing it closes the socket.
"""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cache

import httpx2
from pydantic_ai import exceptions, messages
from pydantic_ai.direct import model_request_stream
from pydantic_ai.models import Model

from tools.models.library_values import (
    parameters_for,
    settings_for,
    text_of,
    to_library_messages,
    to_model_error,
    tool_use_of,
)
from tools.models.protocol import (
    Finished,
    ModelError,
    ModelRequest,
    StopReason,
    StreamItem,
    TextDelta,
    ToolUse,
    ToolUseDelta,
    Usage,
)
from tools.models.waiting import ScopedWait
from tools.scope import Scope

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 600.0  # a stream without a byte for so long is dead; models that think are silent for minutes
CLOSE_SECONDS = 1.0  # closing a socket must not wait for the peer
REQUEST_ID_HEADERS = ("request-id", "x-request-id")  # Anthropic, OpenAI
_STOP: dict[str | None, StopReason] = {
    "stop": "stop",
    "length": "length",
    "tool_call": "tool_call",
    "content_filter": "content_filter",
}


@dataclass(slots=True)
class Call:
    """The HTTP side of one call: its client, and the request id once the response headers are here."""

    http: httpx2.AsyncClient
    request_id: str | None = None


@cache
def _trust() -> ssl.SSLContext:
    """One context for all clients: building it reads the whole CA bundle (some 20 ms)."""
    return ssl.create_default_context()


@asynccontextmanager
async def open_call(scope: Scope) -> AsyncIterator[Call]:
    """Yield the Call with a fresh client whose time-outs fit into the scope; close its sockets in the end."""
    remaining = max(scope.remaining(), 0.001)
    timeout = httpx2.Timeout(min(remaining, SILENCE_SECONDS), connect=min(remaining, CONNECT_SECONDS))

    async def note_request_id(response: httpx2.Response) -> None:
        found = (response.headers.get(name) for name in REQUEST_ID_HEADERS)
        call.request_id = next((value for value in found if value), None)

    http = httpx2.AsyncClient(timeout=timeout, verify=_trust(), event_hooks={"response": [note_request_id]})
    call = Call(http)
    try:
        yield call
    finally:
        async with asyncio.timeout(CLOSE_SECONDS):
            await http.aclose()


async def ask(
    request: ModelRequest, scope: Scope, *, provider: str, model_for: Callable[[httpx2.AsyncClient], Model]
) -> AsyncGenerator[StreamItem]:
    """Ask once and yield the items of the protocol.

    Args: model_for builds the library's model on the given HTTP client, with the SDK's own retries off.
    Raises: ModelError, ScopeCancelled. Tool uses are held back until the provider said why it stopped.
    """
    async with open_call(scope) as call, ScopedWait(scope) as wait, AsyncExitStack() as stack:
        try:
            model = model_for(call.http)
            opening = model_request_stream(
                model,
                to_library_messages(request.messages),
                model_settings=settings_for(request, model),
                model_request_parameters=parameters_for(request, model),
                instrument=False,
            )
            stream = await wait(stack.enter_async_context, opening)
            events = aiter(stream)
            uses: list[ToolUse] = []
            while (event := await wait(anext, events, None)) is not None:
                if isinstance(event, messages.PartEndEvent) and isinstance(event.part, messages.ToolCallPart):
                    uses.append(tool_use_of(event.part))
                elif text := text_of(event):
                    yield TextDelta(text)
            if not (stream.provider_details or {}).get("finish_reason"):
                raise ModelError("unavailable", "The stream ended before the provider said why it stopped.")
        except (exceptions.AgentRunError, exceptions.UserError, httpx2.HTTPError, OSError) as error:
            raise to_model_error(error, call.request_id) from error
        for use in uses:
            yield ToolUseDelta(use)
        yield Usage(stream.usage.input_tokens, stream.usage.output_tokens)
        reason = _STOP.get(stream.finish_reason, "error")
        request_id = call.request_id or stream.provider_response_id
        yield Finished(reason, request_id, provider, stream.model_name)
