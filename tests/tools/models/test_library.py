"""What both hosted kinds share, over real sockets: cancel, cut, hold, errors. Each case runs against both formats."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.tools.models.wire import (
    CLAUDE_TEXT_START,
    OPENAI_END,
    Hold,
    a_wire,
    chunk,
    claude,
    claude_end,
    claude_start,
    claude_text,
    collect,
    read_into,
    text_of,
)
from tools.models.anthropic import AnthropicProvider
from tools.models.openai_compatible import OpenAICompatibleProvider
from tools.models.protocol import (
    Finished,
    Message,
    ModelError,
    ModelProvider,
    ModelRequest,
    StreamItem,
    ToolUseDelta,
    Usage,
)
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime

HELLO = ModelRequest(messages=(Message("system", "Be brief."), Message("user", "Hello")))


@dataclass(frozen=True)
class Format:
    """One wire format: how to ask it and how it says the same things."""

    provider: Callable[[str], ModelProvider]
    opening: list[bytes]
    text: Callable[[str], bytes]
    ending: list[bytes]
    two_tools: list[bytes]


def _openai(url: str) -> ModelProvider:
    return OpenAICompatibleProvider(name="openai", model="gpt-4o", base_url=f"{url}/v1", api_key="sk-test")


def _claude(url: str) -> ModelProvider:
    return AnthropicProvider(model="claude-sonnet-4-6", base_url=url, api_key="sk-test")


def _call(index: int, arguments: str, **start: str) -> bytes:
    extra = {"id": start["id"], "type": "function"} if start else {}
    function = {"arguments": arguments} | ({"name": start["name"]} if start else {})
    return chunk({"tool_calls": [{"index": index, "function": function, **extra}]})


def _claude_call(index: int, identity: str, name: str, *parts: str) -> list[bytes]:
    block = {"type": "tool_use", "id": identity, "name": name, "input": {}}
    return [
        claude("content_block_start", index=index, content_block=block),
        *(
            claude("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": part})
            for part in parts
        ),
        claude("content_block_stop", index=index),
    ]


OPENAI = Format(
    provider=_openai,
    opening=[chunk({"role": "assistant", "content": ""})],
    text=lambda text: chunk({"content": text}),
    ending=OPENAI_END,
    two_tools=[
        _call(0, "", id="c1", name="send_mail"),
        _call(0, '{"to": "an'),
        _call(0, 'na@example.org"}'),
        _call(1, "{}", id="c2", name="now"),
        chunk({}, finish="tool_calls"),
        *OPENAI_END[1:],
    ],
)
CLAUDE = Format(
    provider=_claude,
    opening=[claude_start(), CLAUDE_TEXT_START],
    text=claude_text,
    ending=[claude("content_block_stop", index=0), *claude_end()],
    two_tools=[
        *_claude_call(1, "c1", "send_mail", '{"to": "an', 'na@example.org"}'),
        *_claude_call(2, "c2", "now", ""),
        *claude_end("tool_use"),
    ],
)
BOTH = pytest.mark.parametrize("wire_format", [OPENAI, CLAUDE], ids=["openai", "anthropic"])


@BOTH
async def test_text_usage_and_end_come_in_this_order_with_the_providers_request_id(wire_format: Format) -> None:
    script = [*wire_format.opening, wire_format.text("Hel"), wire_format.text("lo"), *wire_format.ending]
    async with a_wire(*script, x_request_id="req-7") as wire:
        items = await collect(wire_format.provider(wire.url), HELLO)
    assert text_of(items) == "Hello"
    usage, finished = items[-2:]
    assert usage == Usage(input_tokens=7, output_tokens=3)
    assert isinstance(finished, Finished)
    assert (finished.stop_reason, finished.request_id) == ("stop", "req-7")


@BOTH
async def test_without_a_request_id_header_the_id_of_the_body_is_kept(wire_format: Format) -> None:
    async with a_wire(*wire_format.opening, wire_format.text("x"), *wire_format.ending) as wire:
        finished = (await collect(wire_format.provider(wire.url), HELLO))[-1]
    assert isinstance(finished, Finished)
    assert finished.request_id in ("chatcmpl-1", "msg_1")


@BOTH
async def test_text_arrives_while_the_server_is_held(wire_format: Format) -> None:
    hold = Hold()
    async with a_wire(*wire_format.opening, wire_format.text("now"), hold, *wire_format.ending) as wire:
        stream = wire_format.provider(wire.url).stream(HELLO, scope=Scope())
        assert text_of([await anext(stream)]) == "now"
        hold.go.set()
        assert isinstance([item async for item in stream][-1], Finished)


@BOTH
async def test_tool_calls_in_chunks_arrive_whole_and_in_order(wire_format: Format) -> None:
    tools = tuple(
        {"name": name, "description": name, "parameters": {"type": "object", "properties": {"to": {"type": "string"}}}}
        for name in ("send_mail", "now")
    )
    request = ModelRequest(messages=HELLO.messages, tools=tools)
    async with a_wire(*wire_format.opening, wire_format.text("On it."), *wire_format.two_tools) as wire:
        items = await collect(wire_format.provider(wire.url), request)
    uses = [item.tool_use for item in items if isinstance(item, ToolUseDelta)]
    assert [(use.id, use.name, use.arguments) for use in uses] == [
        ("c1", "send_mail", {"to": "anna@example.org"}),
        ("c2", "now", {}),
    ]
    assert isinstance(items[-1], Finished)
    assert items[-1].stop_reason == "tool_call"
    assert len(wire.requests[0]["tools"]) == 2


@BOTH
async def test_no_tool_use_comes_before_the_provider_said_why_it_stopped(wire_format: Format) -> None:
    """B02: the last bytes are held, Stop comes, and nothing may have been handed to the tools."""
    hold, scope = Hold(), Scope()
    async with a_wire(*wire_format.opening, *wire_format.two_tools[:-3], hold, *wire_format.two_tools[-3:]) as wire:
        seen: list[StreamItem] = []
        stream = wire_format.provider(wire.url).stream(HELLO, scope=scope)
        reading = asyncio.create_task(read_into(seen, stream))
        await hold.reached.wait()
        scope.cancel(CancelReason.USER)
        with pytest.raises(ScopeCancelled):
            await reading
    assert not [item for item in seen if isinstance(item, ToolUseDelta)]


@BOTH
@pytest.mark.parametrize("how", ["cancel", "aclose", "task"])
async def test_held_stream_closes_its_socket_at_once(wire_format: Format, how: str) -> None:
    hold, scope = Hold(), Scope()
    async with a_wire(*wire_format.opening, wire_format.text("x"), hold) as wire:
        stream = wire_format.provider(wire.url).stream(HELLO, scope=scope)
        await anext(stream)
        await hold.reached.wait()
        started = time.monotonic()
        if how == "aclose":
            await stream.aclose()
        else:
            reading = asyncio.create_task(anext(stream))
            await asyncio.sleep(0)
            if how == "cancel":
                scope.cancel(CancelReason.USER)
            else:
                reading.cancel()
            with pytest.raises(ScopeCancelled if how == "cancel" else asyncio.CancelledError):
                await reading
        async with asyncio.timeout(30):
            await wire.closed.wait()
        assert time.monotonic() - started < 10


@BOTH
async def test_cancel_before_the_first_byte_of_the_answer_closes_the_socket(wire_format: Format) -> None:
    """The server took the request and says nothing: the wait is inside the opening of the stream."""
    hold, scope = Hold(), Scope()
    async with a_wire(hold) as wire:
        reading = asyncio.create_task(anext(wire_format.provider(wire.url).stream(HELLO, scope=scope)))
        await hold.reached.wait()
        scope.cancel(CancelReason.OPERATOR)
        with pytest.raises(ScopeCancelled):
            await reading
        async with asyncio.timeout(30):
            await wire.closed.wait()


@BOTH
async def test_deadline_of_the_scope_ends_a_silent_stream(wire_format: Format) -> None:
    scope = Scope(deadline=boottime() + 0.3)
    async with a_wire(*wire_format.opening, wire_format.text("x"), Hold()) as wire:
        with pytest.raises(ScopeCancelled) as caught:
            await collect(wire_format.provider(wire.url), HELLO, scope)
        assert caught.value.reason is CancelReason.DEADLINE
        async with asyncio.timeout(30):
            await wire.closed.wait()


@BOTH
async def test_cancelled_scope_asks_nobody(wire_format: Format) -> None:
    scope = Scope()
    scope.cancel(CancelReason.USER)
    async with a_wire(*wire_format.opening, *wire_format.ending) as wire:
        with pytest.raises(ScopeCancelled):
            await collect(wire_format.provider(wire.url), HELLO, scope)
    assert wire.requests == []


@BOTH
@pytest.mark.parametrize("way", ["reset", "polite", "half an event"])
async def test_stream_cut_in_the_middle_is_an_error_and_never_a_short_answer(wire_format: Format, way: str) -> None:
    tails: dict[str, list[bytes | Hold | None]] = {
        "reset": [None],
        "polite": [],
        "half an event": [b'data: {"id": "ch', None],
    }
    async with a_wire(*wire_format.opening, wire_format.text("Hel"), *tails[way]) as wire:
        seen: list[StreamItem] = []
        with pytest.raises(ModelError) as caught:
            await read_into(seen, wire_format.provider(wire.url).stream(HELLO, scope=Scope()))
    assert text_of(seen) == "Hel"
    assert (caught.value.code, caught.value.retryable) == ("unavailable", True)
    assert not [item for item in seen if isinstance(item, Finished)]


@BOTH
@pytest.mark.parametrize(
    ("status", "code", "retryable"),
    [
        (400, "bad_request", False),
        (401, "auth", False),
        (403, "auth", False),
        (404, "bad_request", False),
        (422, "bad_request", False),
        (429, "rate_limited", True),
        (500, "unavailable", True),
        (502, "unavailable", True),
        (503, "unavailable", True),
        (529, "overloaded", True),
    ],
)
async def test_each_status_has_its_code_and_is_asked_once(
    wire_format: Format, status: int, code: str, retryable: bool
) -> None:
    body = b'{"type": "error", "error": {"type": "some_error", "message": "no"}}'
    async with a_wire(body, status=status, retry_after="3", request_id="req-9") as wire:
        with pytest.raises(ModelError) as caught:
            await collect(wire_format.provider(wire.url), HELLO)
    assert (caught.value.code, caught.value.retryable) == (code, retryable)
    assert caught.value.request_id == "req-9"
    assert len(wire.requests) == 1
    if status == 429:
        assert caught.value.retry_after_seconds == 3


@BOTH
async def test_nobody_listening_is_unavailable(wire_format: Format) -> None:
    async with a_wire() as wire:
        url = wire.url
    with pytest.raises(ModelError) as caught:
        await collect(wire_format.provider(url), HELLO)
    assert caught.value.code == "unavailable"


@BOTH
async def test_no_key_is_in_an_error(wire_format: Format) -> None:
    async with a_wire(b'{"error": {"message": "wrong key"}}', status=401) as wire:
        with pytest.raises(ModelError) as caught:
            await collect(wire_format.provider(wire.url), HELLO)
    assert "sk-test" not in str(caught.value)
    sent = wire.request_headers[0]
    assert "sk-test" in (sent.get("authorization", "") + sent.get("x-api-key", ""))


@BOTH
async def test_no_socket_and_no_task_is_left_after_a_stream(wire_format: Format) -> None:
    before = asyncio.all_tasks()
    async with a_wire(*wire_format.opening, wire_format.text("x"), *wire_format.ending) as wire:
        await collect(wire_format.provider(wire.url), HELLO)
        async with asyncio.timeout(30):
            await wire.closed.wait()
    # The SDK leaves an iterator to the loop's finalizer, which takes a turn or two.
    left = asyncio.all_tasks() - before
    assert not left or not (await asyncio.wait(left, timeout=30))[1]
