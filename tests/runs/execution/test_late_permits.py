"""A worker that was too busy to begin a call in time asks for a new permit: nothing was sent, so nothing has failed."""

import pytest

from runs.agents import RunContext, agent
from runs.conf import limits
from runs.execution import model_step, tool_step
from runs.models import Step
from runs.testing.lab import Outlive
from tools import permit
from tools.builtin import create_invoice
from tools.scope import boottime


@agent("late_tool", listed=False)
async def late_tool(ctx: RunContext) -> object:
    """Send an invoice."""
    return await ctx.tool(create_invoice, customer="Ada", cents=1)


@agent("late_model", listed=False)
async def late_model(ctx: RunContext) -> str:
    """Ask."""
    return (await ctx.model("Say it.")).text


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of permits: each number in the list makes one look at it late."""
    late: list[float] = []
    monkeypatch.setattr(permit, "boottime", lambda: boottime() + (late.pop() if late else 0.0))
    return late


def test_a_tool_that_came_too_late_is_dispatched_anew(outlive: Outlive) -> None:
    with outlive.hold_at("after_dispatch_before_receipt") as seam:
        run = outlive.start("late_tool")
        seam.wait_reached()
        began = boottime()
        outlive.until(lambda: boottime() > began + limits().permit_seconds)
    run.to_end()
    assert (run.status, run.effects, run.types.count("tool.dispatched")) == ("completed", [1], 2)
    assert [entry.state for entry in run.ledger] == ["succeeded"]
    assert Step.objects.get(run_id=run.pk).state == "finished"


def test_a_worker_that_dies_between_two_tries_leaves_the_call_to_the_next(outlive: Outlive, slow: list[float]) -> None:
    """The first try came too late; the claim dies before the second. The next claim begins the call."""
    slow.append(60.0)
    with outlive.hold_at("after_receipt_before_commit") as seam:
        run = outlive.start("late_tool")
        seam.wait_reached()
        crash = outlive.crash_at("before_dispatch")
    run.to_end()
    assert crash.happened
    assert (run.status, run.effects) == ("completed", [1])


def test_a_worker_that_is_always_late_fails_the_call(
    outlive: Outlive, slow: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_step, "LATE_TRIES", 2)
    slow.extend([60.0, 60.0])
    run = outlive.run("late_tool")
    assert (run.status, run.error[0], run.effects) == ("failed", "permit_expired", [0])
    assert [entry.state for entry in run.ledger] == ["refuted"]


def test_a_model_call_that_came_too_late_is_asked_anew(outlive: Outlive, slow: list[float]) -> None:
    outlive.model.says("It is said.")
    slow.append(60.0)
    run = outlive.run("late_model")
    assert (run.status, run.result, len(outlive.model.asked)) == ("completed", "It is said.", 1)
    ends = [event["data"] for event in run.events if event["type"] == "text.end"]
    assert [(end["final"], end.get("reason")) for end in ends] == [(False, "superseded"), (True, None)]


def test_a_model_call_that_is_always_late_fails(
    outlive: Outlive, slow: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_step, "LATE_TRIES", 2)
    slow.extend([60.0, 60.0])
    run = outlive.run("late_model")
    assert (run.status, run.error[0], outlive.model.asked) == ("failed", "model_unavailable", [])
