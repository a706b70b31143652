"""The scripted model: deterministic words, paced or at full speed, held, failing, calling tools."""

import asyncio
import json
import struct
import time
from pathlib import Path
from typing import Any

import pytest

from tests.tools.models.wire import collect, text_of
from tools.models.protocol import Finished, Message, ModelError, ModelRequest, TextDelta, ToolUse, ToolUseDelta
from tools.models.scripted import ScriptedProvider
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime


def asking(script: dict[str, Any], *later: Message) -> ModelRequest:
    """A request whose last user message holds the script."""
    return ModelRequest(messages=(Message("user", json.dumps({"scripted": script})), *later))


async def test_text_comes_word_by_word_and_ends_with_usage_and_finished() -> None:
    items = await collect(ScriptedProvider({}), asking({"text": "one  two\nthree"}))
    assert [item.text for item in items if isinstance(item, TextDelta)] == ["one  ", "two\n", "three"]
    assert isinstance(items[-1], Finished)
    assert items[-1].stop_reason == "stop"


async def test_same_request_gives_the_same_items() -> None:
    request = asking({"text": "a b", "tool_calls": [{"name": "now"}]})
    first, second = [await collect(ScriptedProvider({}), request) for _ in range(2)]
    assert text_of(first) == text_of(second)
    assert first[2:] == second[2:]


async def test_bench_tokens_carry_their_time_and_leave_the_progress_in_the_probe_file(tmp_path: Path) -> None:
    before = time.time()
    items = await collect(ScriptedProvider({"BENCH_TOK": str(tmp_path)}), asking({"key": "k1", "n": 120, "pad": 3}))
    deltas = [item for item in items if isinstance(item, TextDelta)]
    tokens = [json.loads(delta.text) for delta in deltas]
    assert [token["i"] for token in tokens] == list(range(120))
    assert all(token["t"] == delta.t and token["p"] == "xxx" for token, delta in zip(tokens, deltas, strict=True))
    started, last, count, child = struct.unpack("dddd", (tmp_path / "k1").read_bytes())
    assert before <= started <= tokens[0]["t"]
    assert (last, count, child) == (tokens[-1]["t"], 120, 0)


@pytest.mark.parametrize("key", ["../evil", "a/b", ".hidden", ""])
async def test_key_cannot_leave_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(ModelError) as caught:
        await collect(ScriptedProvider({"BENCH_TOK": str(tmp_path)}), asking({"key": key, "n": 1}))
    assert caught.value.code == "bad_request"


async def test_rate_paces_by_absolute_times() -> None:
    """A consumer that needs half of each interval makes the stream no slower: by relative times it takes 0.6 s."""
    took: list[float] = []
    while len(took) < 10 and (not took or took[-1] >= 0.55):  # a loaded machine wakes nobody in time
        started = time.monotonic()
        async for _ in ScriptedProvider({}).stream(asking({"n": 21, "rate": 50}), scope=Scope()):
            await asyncio.sleep(0.01)
        took.append(time.monotonic() - started)
    assert 0.4 <= took[-1] < 0.55


async def test_hold_point_waits_for_the_file(tmp_path: Path) -> None:
    stream = ScriptedProvider({"BENCH_TOK": str(tmp_path)}).stream(
        asking({"key": "k1", "text": "a b c", "hold_at": 2}), scope=Scope()
    )
    assert [text_of([await anext(stream)]) for _ in range(2)] == ["a ", "b "]
    third = asyncio.ensure_future(anext(stream))
    assert not (await asyncio.wait({third}, timeout=0.05))[0]
    (tmp_path / "k1.release").touch()
    assert text_of([await third]) == "c"
    await stream.aclose()


@pytest.mark.parametrize("script", [{"n": 3, "rate": 0.1}, {"n": 3, "key": "k1", "hold_at": 1}, {"n": 10**9}])
async def test_cancel_ends_it_wherever_it_is(tmp_path: Path, script: dict[str, Any]) -> None:
    scope = Scope()
    stream = ScriptedProvider({"BENCH_TOK": str(tmp_path)}).stream(asking(script), scope=scope)
    await anext(stream)
    asyncio.get_running_loop().call_later(0.02, scope.cancel, CancelReason.USER)
    started = time.monotonic()
    with pytest.raises(ScopeCancelled):
        async for _ in stream:
            pass
    assert time.monotonic() - started < 5


async def test_deadline_ends_a_slow_script() -> None:
    with pytest.raises(ScopeCancelled) as caught:
        await collect(ScriptedProvider({}), asking({"n": 3, "rate": 0.1}), Scope(deadline=boottime() + 0.05))
    assert caught.value.reason is CancelReason.DEADLINE


async def test_error_comes_after_the_words() -> None:
    seen: list[str] = []
    stream = ScriptedProvider({}).stream(asking({"text": "a b", "error": "rate_limited"}), scope=Scope())
    seen += [text_of([await anext(stream)]), text_of([await anext(stream)])]
    with pytest.raises(ModelError) as caught:
        await anext(stream)
    assert (seen, caught.value.code, caught.value.retryable) == (["a ", "b"], "rate_limited", True)


async def test_tool_loop_goes_through_its_turns() -> None:
    script = {
        "turns": [{"text": "look", "tool_calls": [{"name": "now", "arguments": {"z": 1}}]}, {"text": "It is noon."}]
    }
    provider = ScriptedProvider({})
    first = await collect(provider, asking(script))
    (use,) = [item.tool_use for item in first if isinstance(item, ToolUseDelta)]
    assert (use.name, use.arguments) == ("now", {"z": 1})
    loop = (Message("assistant", "look", tool_calls=(use,)), Message("tool", "12:00", tool_call_id=use.id))
    assert text_of(await collect(provider, asking(script, *loop))) == "It is noon."
    after = await collect(provider, asking(script, *loop, Message("assistant", "It is noon.")))
    assert text_of(after) == "Done."


async def test_flat_tool_calls_are_made_once_and_not_again_after_their_results() -> None:
    script = {"tool_calls": [{"name": "a"}, {"name": "b"}]}
    first = await collect(ScriptedProvider({}), asking(script))
    assert [item.tool_use.name for item in first if isinstance(item, ToolUseDelta)] == ["a", "b"]
    answered = (Message("assistant", "", tool_calls=(ToolUse("call_0_0", "a", {}),)),)
    assert text_of(await collect(ScriptedProvider({}), asking(script, *answered))) == "Done."


async def test_full_speed_is_above_100_000_deltas_a_second() -> None:
    """The best of three, in CPU time, because other work shares the machine."""
    best = 0.0
    for _ in range(3):
        started, count = time.process_time(), 0
        async for _ in ScriptedProvider({}).stream(asking({"n": 50_000}), scope=Scope()):
            count += 1
        best = max(best, count / (time.process_time() - started))
    assert best > 100_000
