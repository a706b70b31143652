"""The local model, for real: it streams, obeys schemas, picks tools, frees its slot; and fails in plain words."""

import asyncio
import json
import time

import httpx
import pytest

from tests.tools.models.wire import Hold, a_wire, collect, text_of
from tools.models.local import SLOT_TOKENS, LocalProvider
from tools.models.protocol import (
    Finished,
    Message,
    ModelError,
    ModelRequest,
    StreamItem,
    TextDelta,
    ToolUseDelta,
    Usage,
)
from tools.scope import CancelReason, Scope, ScopeCancelled

SENTENCE = (Message("system", "You are brief."), Message("user", "Tell me about the sea."))
LONG = ModelRequest(messages=SENTENCE, max_tokens=1000, temperature=0.8, seed=1)
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"enum": ["cat", "dog"]}},
    "required": ["name", "age", "kind"],
}
TOOLS = (
    {
        "name": "send_mail",
        "description": "Send an e-mail to one person.",
        "parameters": {
            "type": "object",
            "properties": {"to": {"type": "string"}, "copies": {"type": "integer"}},
            "required": ["to", "copies"],
        },
    },
    {
        "name": "fetch_page",
        "description": "Fetch a web page by its URL and return its text.",
        "parameters": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
    },
)


async def busy_slots(url: str) -> int:
    """How many slots of the server generate."""
    async with httpx.AsyncClient(trust_env=False) as client:
        return sum(slot["is_processing"] for slot in (await client.get(f"{url}/slots")).json())


async def wait_until_idle(url: str, *, seconds: float) -> float:
    """Wait until no slot generates; return how long that took."""
    started = time.monotonic()
    async with asyncio.timeout(seconds):
        while await busy_slots(url):  # the server has no event to wait for, and each question takes a while
            pass
    return time.monotonic() - started


async def test_text_is_streamed_and_the_same_seed_gives_the_same_text(model_server: str) -> None:
    request = ModelRequest(messages=SENTENCE, max_tokens=24, temperature=0.8, seed=7)
    first = await collect(LocalProvider(base_url=model_server), request)
    second = await collect(LocalProvider(base_url=model_server), request)
    assert len([item for item in first if isinstance(item, TextDelta)]) > 5
    assert text_of(first) == text_of(second)
    usage, finished = first[-2:]
    assert isinstance(usage, Usage)
    assert 0 < usage.output_tokens <= 24 < usage.input_tokens + 24
    assert isinstance(finished, Finished)
    assert (finished.stop_reason, finished.provider) == ("length", "local")
    assert finished.request_id


@pytest.mark.parametrize("how", ["cancel", "aclose"])
async def test_stop_frees_the_slot_at_once(model_server: str, how: str) -> None:
    scope = Scope()
    stream = LocalProvider(base_url=model_server).stream(LONG, scope=scope)
    await anext(stream)
    assert await busy_slots(model_server) == 1
    if how == "aclose":
        await stream.aclose()
    else:
        scope.cancel(CancelReason.USER)
        with pytest.raises(ScopeCancelled):
            await collect_rest(stream)
    # A request that does not stream goes on for 10 to 30 s here.
    assert await wait_until_idle(model_server, seconds=60) < 8


async def collect_rest(stream: object) -> list[StreamItem]:
    """Read on to the end."""
    return [item async for item in stream]  # type: ignore[attr-defined]


async def test_four_requests_stream_at_the_same_time(model_server: str) -> None:
    streams = [LocalProvider(base_url=model_server).stream(LONG, scope=Scope()) for _ in range(4)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    assert await busy_slots(model_server) == 4
    for stream in streams:
        await stream.aclose()
    await wait_until_idle(model_server, seconds=60)


async def test_request_that_waits_for_a_slot_can_be_cancelled(model_server: str) -> None:
    streams = [LocalProvider(base_url=model_server).stream(LONG, scope=Scope()) for _ in range(4)]
    await asyncio.gather(*(anext(stream) for stream in streams))
    scope = Scope()
    fifth = asyncio.create_task(collect(LocalProvider(base_url=model_server), LONG, scope))
    assert not (await asyncio.wait({fifth}, timeout=0.2))[0]
    started = time.monotonic()
    scope.cancel(CancelReason.USER)
    with pytest.raises(ScopeCancelled):
        await fifth
    assert time.monotonic() - started < 5
    for stream in streams:
        await stream.aclose()
    await wait_until_idle(model_server, seconds=60)


@pytest.mark.parametrize("seed", range(3))
async def test_answer_obeys_the_schema(model_server: str, seed: int) -> None:
    request = ModelRequest(messages=(Message("user", "Invent a pet."),), schema=PERSON, temperature=0.9, seed=seed)
    pet = json.loads(text_of(await collect(LocalProvider(base_url=model_server), request)))
    assert pet.keys() == {"name", "age", "kind"}
    assert isinstance(pet["age"], int)
    assert pet["kind"] in ("cat", "dog")
    assert len(pet["name"]) <= 200


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Send a mail to anna@example.com saying hello", "send_mail"),
        ("Please fetch https://example.com/x", "fetch_page"),
    ],
)
async def test_obvious_tool_is_chosen_with_arguments_that_obey_its_schema(
    model_server: str, text: str, name: str
) -> None:
    request = ModelRequest(messages=(Message("user", text),), tools=TOOLS)
    items = await collect(LocalProvider(base_url=model_server), request)
    assert [type(item) for item in items] == [ToolUseDelta, Usage, Finished]
    assert isinstance(items[0], ToolUseDelta)
    use = items[0].tool_use
    assert use.name == name
    properties = next(tool for tool in TOOLS if tool["name"] == name)["parameters"]["properties"]  # type: ignore[index]
    assert use.arguments.keys() == properties.keys()
    kinds = {"string": str, "integer": int}
    assert all(isinstance(value, kinds[properties[key]["type"]]) for key, value in use.arguments.items())


async def test_small_talk_is_answered_in_text_although_there_are_tools(model_server: str) -> None:
    request = ModelRequest(messages=(Message("user", "Hello, how are you?"),), tools=TOOLS, max_tokens=12)
    items = await collect(LocalProvider(base_url=model_server), request)
    assert text_of(items)
    assert not [item for item in items if isinstance(item, ToolUseDelta)]


async def test_same_call_is_not_made_again_after_its_result(model_server: str) -> None:
    """Without this rule a model that always picks the tool would loop for ever."""
    asked = Message("user", "Please fetch https://example.com/x")
    first = (await collect(LocalProvider(base_url=model_server), ModelRequest(messages=(asked,), tools=TOOLS)))[0]
    assert isinstance(first, ToolUseDelta)
    loop = (
        asked,
        Message("assistant", "", tool_calls=(first.tool_use,)),
        Message("tool", "The page says: fish.", tool_call_id=first.tool_use.id),
    )
    items = await collect(LocalProvider(base_url=model_server), ModelRequest(messages=loop, tools=TOOLS, max_tokens=12))
    assert text_of(items)
    assert isinstance(items[-1], Finished)
    assert items[-1].stop_reason in ("stop", "length")


async def test_conversation_longer_than_the_context_is_made_to_fit(model_server: str) -> None:
    """Two old messages of some 110 tokens each: the older one goes, the newer one stays."""
    history = (Message("user", "fact " * 110), Message("assistant", "word " * 110))
    request = ModelRequest(messages=(SENTENCE[0], *history, SENTENCE[1]), max_tokens=8)
    usage = (await collect(LocalProvider(base_url=model_server, context_tokens=200), request))[-2]
    assert isinstance(usage, Usage)
    assert 110 < usage.input_tokens <= 192


async def test_server_grants_the_context_that_prompts_are_fitted_to(model_server: str) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        slots = (await client.get(f"{model_server}/slots")).json()
    assert [slot["n_ctx"] for slot in slots] == [SLOT_TOKENS] * 4


async def test_server_that_is_not_there_is_unavailable_and_retryable() -> None:
    async with a_wire() as wire:
        url = wire.url
    with pytest.raises(ModelError) as caught:
        await collect(LocalProvider(base_url=url), LONG)
    assert (caught.value.code, caught.value.retryable) == ("unavailable", True)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b'{"error": "too long"}', 400, "bad_request"), (b'{"error": "x"}', 503, "unavailable"), (b"data: {", 200, None)],
)
async def test_answers_of_a_sick_server_are_told_by_their_code(body: bytes, status: int, code: str | None) -> None:
    async with a_wire(body, status=status) as wire:
        with pytest.raises(ModelError) as caught:
            await collect(LocalProvider(base_url=wire.url), LONG)
    assert caught.value.code == (code or "unavailable")


async def test_cut_stream_is_an_error_and_a_held_one_closes_its_socket() -> None:
    piece = b'data: {"id": "c", "choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": null}]}\n\n'
    async with a_wire(piece) as wire:
        with pytest.raises(ModelError, match="in the middle"):
            await collect(LocalProvider(base_url=wire.url), LONG)
    async with a_wire(piece, Hold()) as wire:
        stream = LocalProvider(base_url=wire.url).stream(LONG, scope=Scope())
        assert text_of([await anext(stream)]) == "Hi"
        await stream.aclose()
        async with asyncio.timeout(30):
            await wire.closed.wait()
