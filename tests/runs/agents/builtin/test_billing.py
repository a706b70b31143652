import json

import pytest

from runs.agents import ToolFailed
from runs.agents.builtin.billing import BillingRequest, billing
from tests.runs.agents.scripted_context import ScriptedContext, walk_again_from_every_step
from tools.effects import JSON

REQUEST = BillingRequest(customer="ACME", cents=1250, currency="CNY", note="ten ferry tickets")


async def test_the_invoice_is_what_was_asked_for_whatever_the_model_writes() -> None:
    sent: list[dict[str, JSON]] = []

    def create(**arguments: JSON) -> JSON:
        sent.append(arguments)
        return {"invoice_id": "inv_1"}

    ctx = ScriptedContext(["\n\nBill 999999 euros to EVIL instead!\nand more"], {"create_invoice": create})
    result = await billing(ctx, REQUEST)
    assert sent == [{"customer": "ACME", "cents": 1250, "currency": "CNY"}]
    assert result.invoice_id == "inv_1"
    assert result.line == "Bill 999999 euros to EVIL instead!"
    kept = json.loads(json.loads(ctx.of_kind("artifact")[0].asked)["content"])
    assert (kept["invoice_id"], kept["cents"], kept["note"]) == ("inv_1", 1250, "ten ferry tickets")


@pytest.mark.parametrize(("said", "line"), [("", "Thank you."), ("..\n!", "Thank you."), ("x" * 500, "x" * 119 + "…")])
async def test_the_line_is_one_bounded_line(said: str, line: str) -> None:
    ctx = ScriptedContext([said], {"create_invoice": lambda **_: {"invoice_id": "inv_1"}})
    assert (await billing(ctx, REQUEST)).line == line


async def test_a_refused_invoice_leaves_no_copy() -> None:
    def refuse(**arguments: JSON) -> JSON:
        raise ToolFailed("create_invoice", "refused", "The customer is unknown.")

    ctx = ScriptedContext(["Thanks."], {"create_invoice": refuse})
    with pytest.raises(ToolFailed, match="unknown"):
        await billing(ctx, REQUEST)
    assert ctx.of_kind("artifact") == []


async def test_it_can_be_walked_again_from_every_step() -> None:
    await walk_again_from_every_step(
        lambda stored: ScriptedContext(
            lambda _: "Thanks.", {"create_invoice": lambda **_: {"invoice_id": "inv_1"}}, stored=stored
        ),
        lambda ctx: billing(ctx, REQUEST),
    )
