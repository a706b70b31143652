"""A conversation with its workers: the next turn works after whatever became of the one before (FAULTS B09)."""

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest

from runs.agents.builtin import assistant
from runs.agents.registry import get_agent
from runs.decisions import cancels, conversations
from runs.decisions.claims import release
from runs.decisions.creation import NewRun, create
from runs.ids import new_id
from runs.states import CancelReason, OnBusy
from tests.runs.execution.conftest import Bench, Made, OpenWorker
from tests.runs.test_conversation_history import check_pairs
from tools import ToolCall, tool
from tools.models.protocol import Finished, ModelError, ModelRequest, StreamItem, TextDelta, ToolUse, ToolUseDelta
from tools.scope import Scope

gates: dict[str, asyncio.Event] = {}


@tool(effect="read")
async def slow_read(call: ToolCall, word: str) -> str:
    """Read, and take long."""
    gates["begun"].set()
    await call.scope.bound(gates["hold"].wait())
    return word


@dataclass
class StrictProvider:
    """Says what it is told, in turns, and refuses a history as real providers do."""

    says: list[list[StreamItem]]
    asked: list[ModelRequest] = field(default_factory=list)
    name = "strict"
    supports_tools = True

    async def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        self.asked.append(request)
        history = [
            {"role": m.role, "tool_calls": [{"id": u.id} for u in m.tool_calls], "tool_call_id": m.tool_call_id}
            for m in request.messages
        ]
        try:
            check_pairs(history)
        except AssertionError as error:
            raise ModelError("bad_request", str(error)) from error
        for item in self.says.pop(0):
            yield item
            if isinstance(item, TextDelta) and item.text == "hold":
                gates["begun"].set()
                await scope.bound(gates["hold"].wait())
        yield Finished("stop", None, "strict", "strict")


@pytest.fixture
def strict() -> StrictProvider:
    gates.update(begun=asyncio.Event(), hold=asyncio.Event())
    return StrictProvider([])


def use(word: str) -> ToolUseDelta:
    return ToolUseDelta(ToolUse("call_1", "slow_read", {"word": word}))


def a_new(bench: Bench, agent: str, prompt: str, **input: Any) -> NewRun:
    checked = get_agent(agent).normal_input({"prompt": prompt, **input})
    return NewRun(
        tenant_id=bench.person.tenant.pk, user_id=bench.person.user.pk, agent=agent, title=prompt, input=checked,
        metadata={}, deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
        idempotency_digest=None,
    )  # fmt: skip


async def first(bench: Bench, agent: str, prompt: str) -> tuple[Made, Any]:
    conversation = new_id()
    row = await bench.decide(create(a_new(bench, agent, prompt), conversation_id=conversation))
    return Made(row["id"], row["stream_id"], bench.person.user.pk), conversation


async def following(bench: Bench, conversation: Any, agent: str, prompt: str, on_busy: OnBusy = OnBusy.REJECT) -> Made:
    new = a_new(bench, agent, prompt)
    sent = await bench.decide(conversations.send(conversation_id=conversation, new=new, on_busy=on_busy))
    assert isinstance(sent, conversations.Started), sent
    row = (await bench.fetch("select stream_id from runs_run where id = %(id)s", id=sent.run_id))[0]
    return Made(sent.run_id, row["stream_id"], bench.person.user.pk)


def use_provider(bench: Bench, provider: StrictProvider) -> None:
    object.__setattr__(bench.worker.hands, "provider", lambda model: provider)


def told(request: ModelRequest) -> list[tuple[str, str]]:
    return [(m.role, m.content) for m in request.messages if m.role != "system"]


async def test_the_next_turn_knows_what_was_said_before(a_worker: OpenWorker, strict: StrictProvider) -> None:
    async with a_worker() as bench:
        use_provider(bench, strict)
        strict.says = [[TextDelta("Paris.")], [TextDelta("Two million.")]]
        run, conversation = await first(bench, "chat", "The capital of France?")
        await bench.advance(run)
        second = await following(bench, conversation, "chat", "How many people?")
        await bench.advance(second)
        assert (await bench.row(second))["result"] == "Two million."
        assert told(strict.asked[1]) == [
            ("user", "The capital of France?"), ("assistant", "Paris."), ("user", "How many people?"),
        ]  # fmt: skip


async def test_the_turn_after_a_stop_in_mid_text_works_and_hears_nothing_of_the_cut_text(
    a_worker: OpenWorker, strict: StrictProvider
) -> None:
    async with a_worker() as bench:
        use_provider(bench, strict)
        strict.says = [[TextDelta("half "), TextDelta("hold")], [TextDelta("whole")]]
        run, conversation = await first(bench, "chat", "tell me")
        going = bench.advancing(run)
        await gates["begun"].wait()
        await bench.decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER))
        await going
        second = await following(bench, conversation, "chat", "once more")
        await bench.advance(second)
        assert (await bench.row(second))["result"] == "whole"
        assert told(strict.asked[1]) == [
            ("user", "tell me"), ("assistant", "(This answer was stopped before it was finished.)"),
            ("user", "once more"),
        ]  # fmt: skip


async def test_b09_the_turn_after_a_stop_in_mid_tool_works_and_the_call_is_told_as_interrupted(
    a_worker: OpenWorker, strict: StrictProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the repair the history holds a call that has no result, and the provider refuses every later turn."""
    monkeypatch.setitem(assistant.TOOLS, "read_file", slow_read)
    async with a_worker() as bench:
        use_provider(bench, strict)
        strict.says = [[TextDelta("I look."), use("a"), use("b")], [TextDelta("It is so.")]]
        run, conversation = await first(bench, "assistant", "look it up")
        going = bench.advancing(run)
        await gates["begun"].wait()
        await bench.decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER))
        await going
        assert (await bench.row(run))["status"] == "cancelled"
        second = await following(bench, conversation, "assistant", "and now?")
        await bench.advance(second)
        assert (await bench.row(second))["result"] == "It is so."
        roles = [m.role for m in strict.asked[1].messages]
        assert roles == ["system", "user", "assistant", "tool", "tool", "assistant", "user"]
        results = [json.loads(m.content) for m in strict.asked[1].messages if m.role == "tool"]
        assert results[0] == {"interrupted": True, "known": "No result came."}
        assert results[1]["not_run"] is True


async def test_a_waiting_message_runs_after_the_worker_has_ended_the_active_one(
    a_worker: OpenWorker, strict: StrictProvider
) -> None:
    async with a_worker() as bench:
        use_provider(bench, strict)
        strict.says = [[TextDelta("one "), TextDelta("hold")], [TextDelta("two")]]
        run, conversation = await first(bench, "chat", "first")
        going = bench.advancing(run)
        await gates["begun"].wait()
        new = a_new(bench, "chat", "second")
        waits = await bench.decide(conversations.send(conversation_id=conversation, new=new, on_busy=OnBusy.ENQUEUE))
        assert isinstance(waits, conversations.Waits)
        gates["hold"].set()
        await going
        (row,) = await bench.fetch("select * from runs_run where turn = 2")
        assert (row["status"], (await bench.row(run))["status"]) == ("queued", "completed")
        assert await bench.fetch("select 1 from runs_outboxrow where run_id = %(run)s", run=row["id"])
        second = Made(row["id"], row["stream_id"], run.user_id)
        await bench.advance(second)
        assert (await bench.row(second))["result"] == "two"


async def test_the_history_is_the_same_for_the_next_claim(a_worker: OpenWorker, strict: StrictProvider) -> None:
    """Steps are known by what was asked: a history that changed between two walks would break the run."""
    async with a_worker() as bench, a_worker("worker-b") as other:
        for each in (bench, other):
            use_provider(each, strict)
        strict.says = [[TextDelta("one")], [TextDelta("two "), TextDelta("hold")], [TextDelta("three")]]
        run, conversation = await first(bench, "chat", "first")
        await bench.advance(run)
        second = await following(bench, conversation, "chat", "second")
        going = bench.advancing(second)
        await gates["begun"].wait()
        fence = (await bench.row(second))["fence"]
        await bench.decide(release(run_id=second.pk, fence=fence, even_in_flight=True))
        await other.advance(second)
        gates["hold"].set()
        await going
        assert (await bench.row(second))["result"] == "three"
        assert strict.asked[1].messages == strict.asked[2].messages
