"""FAULTS A: stop and cancel. B06 (children), B09 and B11 stand where sub-runs, conversations and deploys are tested."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from runs.agents import RunContext, ToolFailed, agent
from runs.ringing import client
from runs.testing.lab import Outlive
from tests.faults.conftest import Check, statuses_until_end
from tools import ToolCall, tool
from tools.builtin import create_invoice, run_command
from tools.scope import boottime

KILL_LIMIT_SECONDS = 10.0
BEGINS = {"model.started", "tool.started", "tool.dispatched"}
WRITE_EACH_TENTH = "while :; do echo x >> {0}; sleep 0.1; done"
DEAF_FOR_A_WHILE = "trap '' TERM; n=0; while [ $n -lt 80 ]; do echo x >> {0}; sleep 0.1; n=$((n+1)); done; exit 0"


class Words(BaseModel):
    """What an agent of a case is told."""

    text: str = ""


@tool(effect="read", timeout_seconds=5)
async def take_a_moment(call: ToolCall, seconds: float) -> str:
    """Take so long."""
    until = boottime() + seconds
    await call.scope.wait_ended(deadline=until)
    call.scope.raise_if_cancelled()
    return "took it"


@tool(effect="read", timeout_seconds=5)
async def fail_soon() -> str:
    """Fail."""
    raise RuntimeError("B fails.")


@agent("b01_command", listed=False)
async def run_a_command(ctx: RunContext, words: Words) -> Any:
    return await ctx.tool(run_command, command=words.text, timeout_seconds=60)


@agent("b01_stream", listed=False)
async def stream(ctx: RunContext) -> str:
    return (await ctx.model("Write much.")).text


@agent("b02_moment", listed=False)
async def moment(ctx: RunContext) -> Any:
    return await ctx.tool(take_a_moment, seconds=0.3)


@agent("b05_three_tools", listed=False)
async def three_tools(ctx: RunContext) -> str:
    reply = await ctx.model("Send three.", tools=[create_invoice])
    for use in reply.tool_uses:
        await ctx.tool(use.name, **use.arguments)
    return reply.text


@agent("b06_siblings", listed=False)
async def siblings(ctx: RunContext) -> str:
    async def third() -> Any:
        await ctx.tool(take_a_moment, seconds=0.8)
        return await ctx.tool(create_invoice, customer="C", cents=1)

    await ctx.gather(ctx.tool(take_a_moment, seconds=1.5), ctx.tool(fail_soon), third())
    return "never"


@agent("b08_write", listed=False)
async def write(ctx: RunContext) -> Any:
    return await ctx.tool(create_invoice, customer="Ada", cents=1)


@agent("b10_retry", listed=False)
async def retry_later(ctx: RunContext) -> str:
    for _ in range(3):
        try:
            await ctx.tool(create_invoice, customer="Ada", cents=1)
        except ToolFailed:
            await ctx.sleep(5)
    return "gave up"


@agent("b12_text_and_tool", listed=False)
async def text_and_tool(ctx: RunContext) -> str:
    await ctx.gather(ctx.model("Write much."), ctx.tool(take_a_moment, seconds=4.0))
    return "done"


def is_in_order(seen: list[str]) -> bool:
    """Statuses are never seen going backwards."""
    order = ["queued", "running", "cancel_requested", "cancelling", "cancelled"]
    return [order.index(status) for status in seen] == sorted(order.index(status) for status in seen)


@pytest.mark.parametrize("command", [WRITE_EACH_TENTH, DEAF_FOR_A_WHILE], ids=["obeys", "deaf"])
def test_b01_a_stop_ends_the_command_itself(outlive: Outlive, check: Check, tmp_path: Path, command: str) -> None:
    lines = tmp_path / "lines"
    run = outlive.start("b01_command", {"text": command.format(lines)})
    run.until("tool.dispatched")
    outlive.until(lambda: lines.exists() and lines.stat().st_size > 4)
    answer = run.stop()
    assert answer.run.status == "cancel_requested"
    seen = statuses_until_end(run, seconds=KILL_LIMIT_SECONDS)
    size = lines.stat().st_size
    assert seen[-1] == "cancelled"
    assert is_in_order(seen)
    assert not BEGINS & set(run.types[run.types.index("run.cancel_requested") :])
    time.sleep(0.3)  # three more lines, if it still ran
    assert lines.stat().st_size == size
    check(run)


def test_b01_a_stop_ends_the_stream_itself(outlive: Outlive, check: Check) -> None:
    turn = outlive.model.says([f"{n} " for n in range(400)], hold_at=40)
    run = outlive.start("b01_stream").until("text.delta", count=40)
    turn.wait_held()
    run.stop()
    seen = statuses_until_end(run, seconds=KILL_LIMIT_SECONDS)
    assert seen[-1] == "cancelled"
    assert is_in_order(seen)
    assert run.types.count("text.delta") == 40
    check(run)


def test_b02_a_stop_that_meets_the_end_flips_nothing(outlive: Outlive, check: Check) -> None:
    """Runs whose tool takes 0.3 s are stopped 0 to 0.6 s after its dispatch, most of them close to its end."""
    ends = {"completed": 0, "cancelled": 0}
    for seconds in [0.0, 0.6, *(0.25 + n / 100 for n in range(12))]:
        run = outlive.start("b02_moment").until("tool.started")
        stop_at = time.monotonic() + seconds
        outlive.until(lambda stop_at=stop_at: time.monotonic() >= stop_at)
        answer = run.stop()
        run.to_end()
        ends[run.status] += 1
        if run.status == "completed":
            assert answer.too_late
            assert run.result == "took it"
        check(run)
    assert all(ends.values()), ends


@pytest.mark.parametrize("deaths", ["none", "flushed"])
def test_b04_a_queued_run_is_stopped_with_every_worker_down(outlive: Outlive, check: Check, deaths: str) -> None:
    run = outlive.put("b01_stream")
    began = time.monotonic()
    assert run.stop().run.status == "cancelled"
    assert time.monotonic() - began < 10
    if deaths == "flushed":
        client().flushdb()
    run.tend()  # from here on there is a worker
    other = outlive.start("b02_moment").to_end()
    assert (other.status, run.status) == ("completed", "cancelled")
    assert "run.started" not in run.types
    assert outlive.model.asked == []
    check(run)


def test_b05_no_tool_of_a_turn_runs_that_was_stopped_before_its_last_byte(outlive: Outlive, check: Check) -> None:
    calls = [("create_invoice", {"customer": name, "cents": 1}) for name in "abc"]
    turn = outlive.model.says("I send three.", tools=calls, hold_at=3)
    run = outlive.start("b05_three_tools")
    turn.wait_held()
    run.stop()
    turn.release()
    run.to_end()
    assert (run.status, run.ledger, outlive.target.effects) == ("cancelled", [], {})
    assert "tool.started" not in run.types
    check(run)


def test_b05_no_second_tool_runs_after_a_stop_during_the_first(outlive: Outlive, check: Check) -> None:
    calls = [("create_invoice", {"customer": name, "cents": 1}) for name in "abc"]
    outlive.model.says("I send three.", tools=calls)
    with outlive.hold_at("after_receipt_before_commit") as seam:
        run = outlive.start("b05_three_tools")
        seam.wait_reached()
        run.stop()
    run.to_end()
    assert (run.status, run.effects, run.cancel_effects) == ("cancelled", [1], ["committed"])
    check(run)


def test_b06_a_batch_ends_only_when_every_sibling_is_settled(outlive: Outlive, check: Check) -> None:
    run = outlive.start("b06_siblings").to_end()
    assert (run.status, run.effects) == ("failed", [1])
    ends = [event["type"] for event in run.events].index("run.failed")
    assert ends == len(run.types) - 1
    assert run.types.count("step.finished") == 4
    check(run)


def test_b06_a_stop_reaches_every_sibling(outlive: Outlive, check: Check) -> None:
    run = outlive.start("b06_siblings").until("tool.started", count=3)
    run.stop()
    run.to_end()
    assert (run.status, run.ledger, outlive.target.effects) == ("cancelled", [], {})
    check(run)


@pytest.mark.parametrize(
    ("spoilt", "word"),
    [
        ({"delay_seconds": 1.0}, "committed"),
        ({"fail_after_effect": True, "delay_seconds": 0.5}, "committed"),
        ({"drop_after_commit": True, "delay_seconds": 0.5}, "committed"),
    ],
    ids=["late", "error", "reset"],
)
def test_b08_a_write_that_was_sent_is_named_with_its_receipt(
    outlive: Outlive, check: Check, spoilt: dict[str, Any], word: str
) -> None:
    """Where no receipt comes, the look-up by the operation key is one."""
    outlive.target.behave(**spoilt)
    run = outlive.start("b08_write")
    outlive.until(lambda: bool(outlive.target.effects))
    run.stop()
    run.to_end()
    assert (run.status, run.cancel_effects, run.effects) == ("cancelled", [word], [1])
    check(run)


def test_b08_a_write_that_nobody_can_tell_of_is_verified_and_never_sent_twice(outlive: Outlive, check: Check) -> None:
    outlive.target.behave(never_answer=True, lookup_fails=True)
    run = outlive.start("b08_write", deadline_seconds=1.5).to_end()
    assert (run.status, run.cancel_effects) == ("needs_reconciliation", ["unknown"])
    check(run)
    outlive.target.behave()
    run.until_status("cancelled")
    assert run.cancel_effects == ["committed"]
    run.retry().to_end()
    assert (run.status, run.effects) == ("completed", [1])
    check(run)


def test_b10_a_stop_during_the_pause_of_a_retry_ends_the_retries(outlive: Outlive, check: Check) -> None:
    outlive.target.behave(refuse=True)
    run = outlive.start("b10_retry").until_status("waiting")
    began = time.monotonic()
    run.stop()
    run.to_end()
    assert time.monotonic() - began < 10
    assert (run.status, run.row.attempt, run.types.count("tool.dispatched")) == ("cancelled", 1, 1)
    outlive.target.behave()
    run.retry().to_end()
    assert (run.status, run.row.attempt) == ("completed", 2)
    assert run.types[0] == "attempt.created"
    check(run)


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed after the stop"])
def test_b12_what_is_open_is_closed_before_the_one_end(outlive: Outlive, check: Check, is_killed: bool) -> None:
    dice = random.Random(12)
    for _ in range(4 if is_killed else 12):
        deltas = dice.randrange(1, 30)
        turn = outlive.model.says([f"{n} " for n in range(30)], hold_at=deltas)
        crash = outlive.crash_at("before_settle") if is_killed else None
        run = outlive.start("b12_text_and_tool").until("text.delta", count=deltas)
        run.until("tool.started")
        turn.wait_held()
        run.stop()
        run.to_end()
        assert crash is None or crash.happened
        assert run.status == "cancelled"
        assert run.types[-1] == "run.cancelled"
        check(run)
        outlive.model.forget()
