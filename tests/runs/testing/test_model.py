"""The scripted model of the plugin: chunks, tools, holds, errors, and turns that were not heard to their end."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from runs.testing.model import ScriptedModel
from tools.models.protocol import Finished, Message, ModelError, ModelRequest, TextDelta, ToolUse, ToolUseDelta
from tools.scope import CancelReason, Scope, ScopeCancelled


def request(step: str) -> ModelRequest:
    return ModelRequest((Message("user", "Say it."),), metadata={"step_id": step})


async def heard(model: ScriptedModel, step: str = "step_1") -> list[object]:
    return [item async for item in model.stream(request(step), scope=Scope())]


async def test_turns_are_said_in_order_word_by_word() -> None:
    model = ScriptedModel()
    model.says("one two")
    model.says(["thr", "ee"])
    first = [item.text for item in await heard(model) if isinstance(item, TextDelta)]
    second = [item.text for item in await heard(model, "step_2") if isinstance(item, TextDelta)]
    assert (first, second, model.turns_left, len(model.asked)) == (["one ", "two"], ["thr", "ee"], 0, 2)


async def test_tools_come_last_and_are_the_reason_of_the_end() -> None:
    model = ScriptedModel()
    model.says("I do.", tools=[("send_mail", {"to": []}), ("send_mail", {"to": ["a"]})])
    *_, one, two, _, end = await heard(model)
    assert one == ToolUseDelta(ToolUse("call_0_0", "send_mail", {"to": []}))
    assert two == ToolUseDelta(ToolUse("call_0_1", "send_mail", {"to": ["a"]}))
    assert isinstance(end, Finished)
    assert end.stop_reason == "tool_call"


async def test_an_error_comes_after_the_text_and_the_turn_counts_as_said() -> None:
    model = ScriptedModel()
    model.says("half", error="rate_limited")
    with pytest.raises(ModelError, match="rate_limited"):
        await heard(model)
    assert model.turns_left == 0


async def test_a_turn_that_was_cut_is_said_again_before_the_next_one() -> None:
    model = ScriptedModel()
    held = model.says("one two", hold_at=1)
    model.says("three")
    scope = Scope()
    items: AsyncIterator[object] = model.stream(request("step_1"), scope=scope)
    await anext(items)
    waiting = asyncio.ensure_future(anext(items))  # type: ignore[arg-type]
    await asyncio.to_thread(held.wait_held)
    scope.cancel(CancelReason.USER)
    with pytest.raises(ScopeCancelled):
        await waiting
    held.release()
    again = [item.text for item in await heard(model, "step_2") if isinstance(item, TextDelta)]
    assert (again, model.turns_left) == (["one ", "two"], 1)


async def test_a_reply_that_died_with_its_worker_can_be_given_back_once() -> None:
    model = ScriptedModel()
    model.says("one")
    await heard(model)
    assert model.steps == ["step_1"]
    model.give_back("step_1")
    model.give_back("step_1")
    assert model.turns_left == 1
