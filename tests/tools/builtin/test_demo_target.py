"""The tools with effects against the demo target itself: both sides speak the same words."""

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.tools.builders import a_call
from tools import LookUpCall, Outcome
from tools.builtin import create_invoice, send_mail
from tools.target.__main__ import open_target

INVOICE = {"customer": "Ada", "cents": 1250}
LETTER = {"to": ["a@example.org"], "subject": "Hello", "body": "Text"}
KEY = "run_1/send#1"


@contextlib.asynccontextmanager
async def settings_of_target(folder: Path) -> AsyncIterator[dict[str, str]]:
    async with open_target(port=0, smtp_port=0, state=folder / "effects.jsonl") as (url, smtp_port):
        yield {
            "TARGET_URL": url,
            "MAIL_LOOKUP_URL": url,
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(smtp_port),
            "SMTP_FROM": "agent@outlive.example",
        }


async def spoil(settings: dict[str, str], **switches: object) -> None:
    async with httpx.AsyncClient() as client:
        (await client.put(f"{settings['TARGET_URL']}/switches", json=switches)).raise_for_status()


async def test_invoice_is_made_once_found_and_voided(tmp_path: Path) -> None:
    async with settings_of_target(tmp_path) as settings:
        first = await create_invoice.call(a_call(settings=settings), INVOICE)
        again = await create_invoice.call(a_call(settings=settings), INVOICE)
        assert (first.outcome, first.proof) == (Outcome.SUCCEEDED, "http 201")
        assert (again.external_id, again.proof) == (first.external_id, "http 200")
        assert create_invoice.look_up is not None
        found = await create_invoice.look_up(LookUpCall(KEY, settings, INVOICE, datetime.now(UTC)))
        assert found.receipt is not None
        assert (found.found, found.receipt.external_id) == (True, first.external_id)
        assert create_invoice.compensate is not None
        undo = a_call(settings=settings, operation_key=f"{KEY}/undo")
        assert (await create_invoice.compensate(undo, INVOICE, first)).outcome is Outcome.SUCCEEDED


async def test_invoice_whose_answer_is_lost_is_unknown_and_then_found(tmp_path: Path) -> None:
    async with settings_of_target(tmp_path) as settings:
        await spoil(settings, drop_after_commit=True)
        receipt = await create_invoice.call(a_call(settings=settings), INVOICE)
        assert receipt.outcome is Outcome.UNKNOWN
        await spoil(settings, fail_after_effect=True)
        receipt = await create_invoice.call(a_call(settings=settings, operation_key="k2"), INVOICE)
        assert receipt.outcome is Outcome.UNKNOWN
        await spoil(settings, refuse=True)
        receipt = await create_invoice.call(a_call(settings=settings, operation_key="k3"), INVOICE)
        assert receipt.outcome is Outcome.FAILED
        assert create_invoice.look_up is not None
        for key, happened in ((KEY, True), ("k2", True), ("k3", False)):
            found = await create_invoice.look_up(LookUpCall(key, settings, INVOICE, datetime.now(UTC)))
            assert found.found is happened


async def test_mail_whose_answer_is_lost_is_unknown_and_then_found(tmp_path: Path) -> None:
    async with settings_of_target(tmp_path) as settings:
        receipt = await send_mail.call(a_call(settings=settings), LETTER)
        assert (receipt.outcome, receipt.proof) == (Outcome.SUCCEEDED, "smtp 250")
        await spoil(settings, drop_after_commit=True)
        receipt = await send_mail.call(a_call(settings=settings, operation_key="k2"), LETTER)
        assert receipt.outcome is Outcome.UNKNOWN
        await spoil(settings, fail_after_effect=True)
        receipt = await send_mail.call(a_call(settings=settings, operation_key="k3"), LETTER)
        assert receipt.outcome is Outcome.UNKNOWN
        await spoil(settings, refuse=True)
        receipt = await send_mail.call(a_call(settings=settings, operation_key="k4"), LETTER)
        assert receipt.outcome is Outcome.FAILED
        assert send_mail.look_up is not None
        for key, happened in ((KEY, True), ("k2", True), ("k3", True), ("k4", False)):
            found = await send_mail.look_up(LookUpCall(key, settings, LETTER, datetime.now(UTC)))
            assert found.found is happened
