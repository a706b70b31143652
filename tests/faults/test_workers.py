"""FAULTS B29 and C: workers, queue, deadlines, side effects. What needs real processes is in tests/chaos."""

import asyncio
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import connection
from pydantic import BaseModel

from runs.agents import RunContext, agent
from runs.database import conninfo
from runs.errors import Busy
from runs.models import OutboxRow, Run
from runs.ringing import client
from runs.testing.lab import Outlive
from runs.testing.run import RunUnderTest
from runs.testing.seams import Crash
from tests.faults.conftest import Check
from tools import ToolCall, tool
from tools.builtin import create_invoice, send_mail

KILL_LIMIT_SECONDS = 10.0


class Approval(BaseModel):
    """What a person says."""

    approve: bool


@tool(effect="read", timeout_seconds=60)
async def swallow_everything() -> str:
    """Go on whatever is raised."""
    while True:
        try:
            await asyncio.sleep(60)
        except Exception:
            pass


@tool(effect="read", timeout_seconds=0.8)
async def hang(call: ToolCall) -> str:
    """Answer never."""
    await asyncio.Event().wait()
    return "never"


@tool(effect="read", timeout_seconds=20)
async def take_long(call: ToolCall, seconds: float) -> str:
    """Answer after so long."""
    await asyncio.sleep(seconds)
    return f"{call.remaining():.3f}"


@agent("b29_three_waits", listed=False)
async def three_waits(ctx: RunContext) -> str:
    for number in range(3):
        await ctx.model(f"What is question {number}?")
        await ctx.ask(f"Question {number}?", schema=Approval)
    return "done"


@agent("b36_swallows", listed=False)
async def swallows(ctx: RunContext) -> Any:
    return await ctx.tool(swallow_everything)


@agent("b37_tool", listed=False)
async def one_long_tool(ctx: RunContext) -> Any:
    return await ctx.tool(take_long, seconds=1.5)


@agent("b37_tries", listed=False)
async def three_tries(ctx: RunContext) -> str:
    for _ in range(3):
        await ctx.gather(ctx.tool(hang), return_errors=True)
    return "gave up"


@agent("b37_model_last", listed=False)
async def model_last(ctx: RunContext) -> str:
    await ctx.tool(take_long, seconds=1.5)
    return (await ctx.model("Be quick.")).text


@agent("b38_invoice", listed=False)
async def invoice(ctx: RunContext) -> Any:
    return await ctx.tool(create_invoice, customer="Ada", cents=1)


@agent("b40_mail_and_ask", listed=False)
async def mail_and_ask(ctx: RunContext) -> Any:
    async def mail() -> Any:
        return await ctx.tool(send_mail, to=["ada@example.test"], subject="s", body="b")

    async def ask(prompt: str) -> bool:
        return (await ctx.ask(prompt, schema=Approval)).approve

    return (await ctx.gather(mail(), ask("One?"), ask("Two?")))[1:]


def test_b29_a_wait_is_no_end_and_a_resume_repeats_nothing(outlive: Outlive, check: Check) -> None:
    for number in range(3):
        outlive.model.says(f"It is {number}.")
    run, counts = outlive.start("b29_three_waits"), Counter[str]()
    for number in range(3):
        run.to_end()
        assert (run.status, run.questions) == ("waiting", [f"Question {number}?"])
        now = Counter(run.types)
        grown = now - counts
        assert not set(now) & {"run.completed", "run.failed", "run.cancelled"}
        assert (grown["model.started"], grown["input.requested"], grown["text.delta"], grown["usage"]) == (1, 1, 3, 1)
        assert Run.objects.filter(pk=run.pk, status="waiting").exists()
        tokens = run.row.output_tokens
        if number == 1:  # the worker that takes the answer up dies, and the next one goes on
            outlive.crash_at("lease_held")
        counts = now
        run.answer({"approve": True})
    run.to_end()
    assert (run.status, len(outlive.model.asked)) == ("completed", 3)
    assert run.row.output_tokens == tokens == 9
    check(run)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("b36_swallows", "lease_held"),
        ("b29_three_waits", "after_commit_before_bell"),
        ("b38_invoice", "before_dispatch"),
    ],
)
def test_b30_a_stop_wins_between_two_deaths(outlive: Outlive, check: Check, name: str, place: str) -> None:
    outlive.model.says("It is.")
    crash = outlive.crash_at(place)
    run = outlive.start(name)
    wait_for_crash(crash)
    run.stop()
    run.to_end(seconds=KILL_LIMIT_SECONDS)
    assert (run.status, outlive.target.effects) == ("cancelled", {})
    check(run)


def wait_for_crash(crash: Crash) -> None:
    give_up_at = time.monotonic() + 60
    while not crash.happened:
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_b33_a_create_that_was_answered_with_an_error_never_executes(outlive: Outlive) -> None:
    """The event table is locked past the lock timeout: what was inserted before is rolled back, nothing is queued."""
    client().flushdb()
    with psycopg.connect(conninfo()) as other:
        other.execute("lock table runs_event in access exclusive mode")
        with pytest.raises(Busy):
            outlive.put("b38_invoice")
        other.rollback()
    assert (Run.objects.count(), OutboxRow.objects.count(), client().llen("rq:queue:default")) == (0, 0, 0)
    assert outlive.run("b38_invoice").status == "completed"


def test_b33_a_run_that_is_claimed_at_once_is_there(outlive: Outlive, check: Check) -> None:
    """Threads with connections of their own create, as web processes do, while the worker takes what it sees."""
    made: list[RunUnderTest] = []

    def create() -> None:
        made.extend(outlive.put("b38_invoice") for _ in range(6))
        connection.close()

    threads = [threading.Thread(target=create) for _ in range(5)]
    for thread in threads:
        thread.start()
    outlive.until(lambda: not any(thread.is_alive() for thread in threads))
    assert len(made) == 30
    for run in made:
        run.to_end()
        assert (run.status, run.effects) == ("completed", [1]), run.error
        check(run)


@pytest.mark.parametrize("reason", ["deadline", "user"])
def test_b36_a_tool_that_swallows_every_exception_is_stopped(outlive: Outlive, check: Check, reason: str) -> None:
    run = outlive.start("b36_swallows", deadline_seconds=1.5 if reason == "deadline" else 60)
    run.until("tool.started")
    if reason == "user":
        run.stop()
    run.to_end(seconds=KILL_LIMIT_SECONDS)
    assert (run.status, run.row.cancel_reason) == ("cancelled", reason)
    assert run.types[-1] == "run.cancelled"
    assert outlive.run("b38_invoice").status == "completed"
    check(run)


def test_b37_the_time_in_the_queue_counts(outlive: Outlive, check: Check) -> None:
    run = outlive.put("b37_tool", deadline_seconds=2.0)
    with connection.cursor() as cursor:
        cursor.execute("select pg_sleep(1.2)")  # every worker is busy
    run.to_end()
    row = run.row
    assert (run.status, row.cancel_reason) == ("cancelled", "deadline")
    assert row.deadline_at - row.created_at < timedelta(seconds=3.0)  # from its claim on it were 3.2
    check(run)


def test_b37_tries_share_one_deadline(outlive: Outlive, check: Check) -> None:
    run = outlive.start("b37_tries", deadline_seconds=1.4).to_end()
    row = run.row
    assert (run.status, row.cancel_reason) == ("cancelled", "deadline")
    assert run.types.count("tool.started") <= 2
    assert (row.terminal_at - row.created_at).total_seconds() < 1.4 + 10
    check(run)


def test_b37_a_model_is_given_what_is_left(outlive: Outlive, check: Check) -> None:
    outlive.model.says("quick")
    run = outlive.start("b37_model_last", deadline_seconds=4.0).to_end()
    assert run.status == "completed"
    assert outlive.model.seconds_given[0] <= 2.5
    check(run)


def test_b37_a_deadline_that_has_passed_lets_nothing_begin(outlive: Outlive, check: Check) -> None:
    run = outlive.put("b38_invoice", deadline_seconds=0.2)
    with connection.cursor() as cursor:
        cursor.execute("select pg_sleep(0.3)")  # every worker is busy
    run.to_end()
    assert (run.status, run.row.cancel_reason, run.ledger) == ("cancelled", "deadline", [])
    check(run)


@pytest.mark.parametrize("is_killed", [False, True], ids=["reset", "killed before the receipt"])
def test_b38_a_lost_answer_is_looked_up_under_the_one_key(outlive: Outlive, check: Check, is_killed: bool) -> None:
    if is_killed:
        outlive.crash_at("after_receipt_before_commit")
    else:
        outlive.target.behave(drop_after_commit=True)
    run = outlive.run("b38_invoice")
    assert (run.status, run.effects) == ("completed", [1])
    (entry,) = run.ledger
    assert entry.state == "succeeded"
    assert entry.receipt is not None
    assert entry.receipt["external_id"].startswith("inv_")
    if not is_killed:
        shown = [event["data"] for event in run.events if event["type"] == "tool.progress"]
        assert [progress["data"]["state"] for progress in shown] == ["looking_up"]
        assert entry.evidence == ("look_up",)
    check(run)


@pytest.mark.parametrize("place", [None, "lease_held"], ids=["as it is", "restarted"])
def test_b40_a_mail_beside_two_questions_is_sent_once(outlive: Outlive, check: Check, place: str | None) -> None:
    run = outlive.start("b40_mail_and_ask").to_end()
    assert (run.status, sorted(run.questions), run.effects) == ("waiting", ["One?", "Two?"], [1])
    if place:  # the worker that takes the answer up dies
        outlive.crash_at(place)
    run.answer({"approve": True}, prompt="One?")
    run.to_end()
    assert run.questions == ["Two?"]
    run.answer({"approve": False}, prompt="Two?")
    run.to_end()
    assert (run.status, run.result, run.effects) == ("completed", [True, False], [1])
    check(run)
