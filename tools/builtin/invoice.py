"""The tool create_invoice: an effect whose target takes our operation key, can be looked up, and can be voided."""

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import Field

from tools.builtin.http_effects import json_of, look_up_operation, post_once, setting
from tools.call import LookUpCall, ToolCall
from tools.effects import JSON, Effect, LookUp, Outcome, Receipt
from tools.errors import OutcomeUnknown, ToolError
from tools.retry import Retry
from tools.tool import tool

TARGET_SETTING = "TARGET_URL"
REQUEST_SECONDS = 10.0


async def look_up_invoice(call: LookUpCall) -> LookUp:
    """Ask the target what it did under the operation key."""
    found = await look_up_operation(setting(call.settings, TARGET_SETTING), call.operation_key)
    invoice_id = _invoice_id(found.receipt.value) if found.receipt else None
    if invoice_id is None:
        return found
    receipt = Receipt(Outcome.SUCCEEDED, value={"invoice_id": invoice_id}, proof="look-up", external_id=invoice_id)
    return dataclasses.replace(found, receipt=receipt)


async def void_invoice(call: ToolCall, arguments: Mapping[str, Any], receipt: Receipt) -> Receipt:
    """Void what a receipt names; an operation of its own, under its own key. The arguments are not needed."""
    if receipt.external_id is None:
        raise ToolError("The receipt names no invoice, so there is nothing to void.", code="nothing_to_void")
    base = setting(call.settings, TARGET_SETTING).rstrip("/")
    url = f"{base}/invoices/{quote(receipt.external_id, safe='')}/void"
    response = await post_once(call, url, {}, timeout_seconds=REQUEST_SECONDS)
    return Receipt(
        Outcome.SUCCEEDED,
        value={"invoice_id": receipt.external_id, "voided": True},
        proof=f"http {response.status_code}",
        external_id=receipt.external_id,
    )


@tool(
    effect=Effect.IDEMPOTENT,
    look_up=look_up_invoice,
    compensate=void_invoice,
    timeout_seconds=20,
    request_timeout_seconds=REQUEST_SECONDS,
    target_bound_seconds=5,
    look_up_setting=TARGET_SETTING,
    retry=Retry(tries=3),
)
async def create_invoice(
    call: ToolCall,
    customer: Annotated[str, Field(min_length=1, max_length=200)],
    cents: Annotated[int, Field(ge=1, le=10**12, description="The amount in the currency's smallest unit.")],
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$", description="ISO 4217 code.")] = "EUR",
) -> Receipt:
    """Create an invoice in the billing system. The same call never makes a second one."""
    url = setting(call.settings, TARGET_SETTING).rstrip("/") + "/invoices"
    body: dict[str, JSON] = {"customer": customer, "amount_cents": cents, "currency": currency}
    response = await post_once(call, url, body, timeout_seconds=REQUEST_SECONDS)
    invoice_id = _invoice_id(json_of(response))
    if invoice_id is None:
        raise OutcomeUnknown(f"{url} answered {response.status_code} without the invoice's id.")
    return Receipt(
        Outcome.SUCCEEDED,
        value={"invoice_id": invoice_id},
        proof=f"http {response.status_code}",
        external_id=invoice_id,
    )


def _invoice_id(answer: JSON) -> str | None:
    """Return the target's name of an invoice: "id" of the invoice or of the effect."""
    found = answer.get("id") if isinstance(answer, dict) else None
    return found if isinstance(found, str) and found else None
