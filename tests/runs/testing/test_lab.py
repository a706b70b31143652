"""What somebody writes who tests an agent of their own: nothing here knows more of Outlive than the README says."""

from typing import Any

import pytest
from pydantic import BaseModel

from runs.agents import Message, RunContext, ToolFailed, agent
from runs.testing.lab import Outlive
from tests.stack import ROOT
from tools.builtin import create_invoice, run_command


class Order(BaseModel):
    """Whom to bill."""

    customer: str
    is_asked: bool = False


class Approval(BaseModel):
    """What the person says."""

    approve: bool


@agent("order_of_a_user", listed=False)
async def bill(ctx: RunContext, order: Order) -> str:
    """Write a line, ask if wanted, send the invoice, thank."""
    line = await ctx.model([Message("user", f"A line for {order.customer}.")])
    if order.is_asked and not (await ctx.ask("Send it?", schema=Approval)).approve:
        return "not sent"
    receipt: Any = await ctx.tool(create_invoice, customer=order.customer, cents=100)
    thanks = await ctx.model("Thank them.")
    return f"{line.text} {receipt['invoice_id'][:4]} {thanks.text}"


@agent("loop_of_a_user", listed=False)
async def loop(ctx: RunContext, order: Order) -> str:
    """Let the model choose."""
    reply = await ctx.model(f"What shall be done for {order.customer}?", tools=[create_invoice])
    for use in reply.tool_uses:
        await ctx.tool(use.name, **use.arguments)
    return reply.text


@agent("command_of_a_user", listed=False)
async def command(ctx: RunContext) -> str:
    """Run a command for ever."""
    await ctx.tool(run_command, command="echo begun; exec sleep 600")
    return "never"


@agent("careful_of_a_user", listed=False)
async def careful(ctx: RunContext, order: Order) -> str:
    """Say what the target says."""
    try:
        await ctx.tool(create_invoice, customer=order.customer, cents=100)
    except ToolFailed as error:
        return error.code
    return "sent"


ADA = {"customer": "Ada"}


def test_it_writes_a_line_and_sends_one_invoice(outlive: Outlive) -> None:
    outlive.model.says("Dear Ada.")
    outlive.model.says("Thanks!")
    run = outlive.run("order_of_a_user", ADA)
    assert (run.status, run.result) == ("completed", "Dear Ada. inv_ Thanks!")
    assert outlive.model.asked[0].messages[-1].content == "A line for Ada."
    assert [(entry.tool, entry.state) for entry in run.ledger] == [("create_invoice", "succeeded")]
    assert run.effects == [1]


@pytest.mark.parametrize(
    "spoilt",
    [{"drop_after_commit": True}, {"fail_after_effect": True}, {"delay_seconds": 0.3}],
    ids=["dropped", "failed", "late"],
)
def test_a_target_that_loses_its_answer_sends_one_invoice(outlive: Outlive, spoilt: dict[str, Any]) -> None:
    outlive.model.says("Dear Ada.")
    outlive.model.says("Thanks!")
    outlive.target.behave(**spoilt)
    run = outlive.run("order_of_a_user", ADA)
    assert run.status == "completed"
    assert run.effects == [1]


@pytest.mark.parametrize(
    "seam",
    [
        "lease_held", "before_model", "after_model_before_dispatch", "before_dispatch",
        "after_dispatch_before_receipt", "after_receipt_before_commit", "after_commit_before_bell",
    ],
)  # fmt: skip
def test_wherever_its_worker_dies_one_invoice_is_sent(outlive: Outlive, seam: str) -> None:
    outlive.model.says("Dear Ada.")
    outlive.model.says("Thanks!")
    crash = outlive.crash_at(seam)
    run = outlive.run("order_of_a_user", ADA)
    assert crash.happened
    assert (run.status, run.result) == ("completed", "Dear Ada. inv_ Thanks!")
    assert run.effects == [1]
    assert "claim.lost" in run.types
    assert outlive.model.turns_left == 0


def test_it_waits_for_a_person_and_holds_no_worker(outlive: Outlive) -> None:
    outlive.model.says("Dear Ada.")
    run = outlive.run("order_of_a_user", ADA | {"is_asked": True})
    assert (run.status, run.questions, run.effects) == ("waiting", ["Send it?"], [])
    run.answer({"approve": False})
    run.to_end()
    assert (run.status, run.result, run.effects) == ("completed", "not sent", [])
    assert len(outlive.model.asked) == 1


def test_a_stop_in_mid_text_keeps_the_half_text(outlive: Outlive) -> None:
    turn = outlive.model.says("Dear Ada, thank you.", hold_at=2)
    run = outlive.start("order_of_a_user", ADA)
    turn.wait_held()
    run.until("text.delta", count=2)
    run.stop()
    run.to_end()
    assert (run.status, run.cancel_effects) == ("cancelled", ["abandoned"])
    ends = [event["data"] for event in run.events if event["type"] == "text.end"]
    assert [(end["final"], end["reason"]) for end in ends] == [(False, "stop")]
    assert outlive.model.turns_left == 1


def test_a_turn_that_is_held_goes_on_when_it_is_let(outlive: Outlive) -> None:
    first = outlive.model.says(["Dear ", "Ada."], hold_at=2)
    outlive.model.says("Thanks!")
    run = outlive.start("order_of_a_user", ADA)
    first.wait_held()
    assert run.effects == []
    first.release()
    assert run.to_end().status == "completed"


def test_a_stop_after_the_models_choice_lets_no_tool_begin(outlive: Outlive) -> None:
    outlive.model.says("I send it.", tools={"create_invoice": {"customer": "Ada", "cents": 100}})
    with outlive.hold_at("after_model_before_dispatch") as seam:
        run = outlive.start("loop_of_a_user", ADA)
        seam.wait_reached()
        run.stop()
    run.to_end()
    assert (run.status, run.ledger, outlive.target.effects) == ("cancelled", [], {})


def test_a_write_that_nobody_can_verify_is_not_called_stopped(outlive: Outlive) -> None:
    outlive.model.says("Dear Ada.")
    outlive.target.behave(never_answer=True, lookup_fails=True)
    run = outlive.start("order_of_a_user", ADA, deadline_seconds=2)
    run.to_end()
    assert (run.status, run.cancel_effects) == ("needs_reconciliation", ["unknown"])
    outlive.target.behave()
    assert run.until_status("cancelled").effects == [1]
    assert [(entry.state, entry.evidence[-1]) for entry in run.ledger] == [("confirmed", "look_up")]


def test_a_refusal_is_an_error_that_the_agent_sees(outlive: Outlive) -> None:
    outlive.target.behave(refuse=True)
    run = outlive.run("careful_of_a_user", ADA)
    assert (run.status, run.result, run.effects) == ("completed", "http_422", [0])


def test_a_command_ends_with_the_stop(outlive: Outlive) -> None:
    run = outlive.start("command_of_a_user").until("tool.progress")
    run.stop()
    run.to_end()
    assert (run.status, run.cancel_effects) == ("cancelled", ["stopped"])


def test_a_model_that_fails_fails_the_run(outlive: Outlive) -> None:
    outlive.model.says(error="auth")
    run = outlive.run("order_of_a_user", ADA)
    assert (run.status, run.error[0]) == ("failed", "model_auth")


def test_a_missing_answer_is_said_aloud(outlive: Outlive) -> None:
    run = outlive.run("order_of_a_user", ADA)
    assert run.status == "failed"
    assert "outlive.model.says" in run.error[1]


def test_the_example_of_the_readme(outlive: Outlive) -> None:
    text = (ROOT / "README.md").read_text()
    example = text.split("## Test your agent")[1].split("```python\n")[1].split("```")[0]
    names: dict[str, Any] = {}
    exec(example, names)
    names["test_one_invoice_whatever_happens"](outlive)


@agent("family_of_a_user", listed=False)
async def family(ctx: RunContext, order: Order) -> list[str]:
    """Let two others bill the same customer."""
    return await ctx.gather(*(ctx.spawn("order_of_a_user", order, title=f"part {n}") for n in range(2)))


def test_children_are_carried_along_and_a_crash_in_one_sends_nothing_twice(outlive: Outlive) -> None:
    for _ in range(4):
        outlive.model.says("A line.")
    outlive.crash_at("after_dispatch_before_receipt")
    run = outlive.start("family_of_a_user", ADA).to_end(seconds=60.0)
    assert run.status == "completed", run.error
    assert [child.status for child in run.children] == ["completed", "completed"]
    assert sorted(outlive.target.effects.values()) == [1, 1]


def test_what_kills_every_worker_is_ended_at_the_third_death(outlive: Outlive) -> None:
    outlive.model.says("A line.")
    run = outlive.put("order_of_a_user", ADA)
    for _ in range(3):
        crash = outlive.crash_at("before_dispatch")
        outlive.until(lambda crash=crash: crash.happened)
    run.to_end(seconds=60.0)
    assert run.error[0] == "worker_lost"
    assert outlive.target.effects == {}
