"""Receipts as JSON: what the ledger keeps, what the agent gets, and what everybody may see."""

import json
from typing import Any

from runs.agents.errors import ToolFailed
from tools.effects import JSON, Outcome, Receipt

# An event is read by every follower; what is larger is shown by its beginning, and stored whole with the step.
SHOWN_BYTES = 32_768
# Codes of a process that has run and that we, the loss of its worker, or the end of its shell have ended.
STOPPED = ("stopped", "timeout", "interrupted", "shell_ended")


def as_json(receipt: Receipt, *, stopped: bool = False) -> dict[str, Any]:
    """Return the receipt for the ledger. stopped: a process that ended because we ended it."""
    return {
        "outcome": receipt.outcome.value,
        "value": receipt.value,
        "proof": receipt.proof,
        "external_id": receipt.external_id,
        "retryable": receipt.retryable,
        "error": receipt.error,
        "code": receipt.code,
        "stopped": stopped,
    }


def value_of(stored: dict[str, Any]) -> JSON:
    """Return what the agent gets of a stored receipt; one that came from a look-up may have none."""
    value: JSON = stored.get("value")
    return value


def failure(tool: str, receipt: Receipt) -> ToolFailed:
    """Make the agent's error of a receipt that is no success."""
    return ToolFailed(
        tool,
        receipt.code or "tool_error",
        receipt.error or "The tool refused.",
        retryable=receipt.retryable,
    )


def as_error(error: ToolFailed) -> dict[str, Any]:
    """Return what the step's row keeps of an error, so that the next walk raises the same."""
    return {"code": error.code, "message": error.message, "retryable": error.retryable}


def from_error(tool: str, stored: dict[str, Any]) -> ToolFailed:
    """Make the error that the settled step raised before."""
    code, message = stored.get("code", "tool_error"), stored.get("message", "The tool failed.")
    return ToolFailed(tool, code, message, retryable=bool(stored.get("retryable")))


def shown(receipt: Receipt, *, was_cancelled: bool = False) -> dict[str, Any]:
    """Return the data of tool.result. was_cancelled: a stop has ended the call, or kept it from beginning."""
    if receipt.outcome is not Outcome.SUCCEEDED:
        error = {"code": receipt.code or "tool_error", "message": receipt.error or ""}
        return {"ok": False, "error": error, "proof": receipt.proof} | ({"stopped": True} if was_cancelled else {})
    return {"ok": True, "value": shorten(receipt.value), "proof": receipt.proof}


def shorten(value: JSON) -> JSON:
    """Return the value, or its beginning as text when it is too large for an event."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= SHOWN_BYTES:
        return value
    return {"shortened": True, "characters": len(text), "begins": text[: SHOWN_BYTES // 4]}
