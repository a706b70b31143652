"""Send one invoice in fixed steps, so that an unknown result can be seen without relying on a model's choice."""

import json
import re
from typing import Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from runs.agents import RunContext, agent
from tools.builtin import create_invoice

LINE_CHARS = 120
LINE_TOKENS = 40
MAX_CENTS = 10_000_000

Customer = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Note = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]


class BillingRequest(BaseModel):
    """Whom to bill, and how much."""

    model_config = ConfigDict(extra="forbid")
    customer: Customer = Field(description="Who gets the invoice?")
    cents: Annotated[int, Field(ge=1, le=MAX_CENTS)] = Field(
        description="The amount in the smallest unit: 1250 is 12.50."
    )
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] = Field(
        default="EUR", description="Three letters, such as EUR."
    )
    note: Note | None = Field(default=None, description="What it is for.")


class Invoice(BaseModel):
    """What was sent. invoice_id: the billing system's own; artifact_id: the copy that is kept with the run."""

    invoice_id: str
    line: str
    artifact_id: str


@agent("billing", deadline_seconds=600, description="Writes one line, creates one invoice, keeps a copy of it.")
async def billing(ctx: RunContext, request: BillingRequest) -> Invoice:
    """Draft the line, create the invoice, keep the copy. The amount is the input's, whatever the model writes."""
    about = f" It is for: {request.note}" if request.note else ""
    reply = await ctx.model(
        f"Write one short, friendly line of text for an invoice to {request.customer}.{about}",
        label="Line on the invoice",
        max_tokens=LINE_TOKENS,
    )
    line = _one_line(reply.text)
    receipt = cast(
        dict[str, Any],
        await ctx.tool(create_invoice, customer=request.customer, cents=request.cents, currency=request.currency),
    )
    invoice_id = str(receipt["invoice_id"])
    copy = {"invoice_id": invoice_id, **request.model_dump(mode="json"), "line": line}
    artifact_id = await ctx.artifact(
        "invoice.json", json.dumps(copy, ensure_ascii=False, indent=2), content_type="application/json"
    )
    await ctx.say(f"Invoice {invoice_id} to {request.customer} over {_amount(request)} was created.")
    return Invoice(invoice_id=invoice_id, line=line, artifact_id=artifact_id)


def _one_line(text: str) -> str:
    """Return the first line that says something; a model may say nothing, an invoice may not."""
    first = next((line.strip() for line in text.splitlines() if re.search(r"\w", line)), "Thank you.")
    return first if len(first) <= LINE_CHARS else f"{first[: LINE_CHARS - 1]}\u2026"


def _amount(request: BillingRequest) -> str:
    """Say the amount without guessing how many decimals a currency has."""
    return f"{request.cents} {request.currency} (smallest unit)"
