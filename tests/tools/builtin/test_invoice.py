"""create_invoice against a real HTTP target: which answers are proof, and which leave the outcome open."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.tools.builders import a_call, a_permit
from tests.tools.http_target import HANG_UP, Request, an_http_target, reply, unused_port
from tools import LookUpCall, Outcome, Receipt
from tools.builtin import create_invoice
from tools.builtin.invoice import look_up_invoice, void_invoice
from tools.scope import Scope, boottime

ARGUMENTS = {"customer": "Ada", "cents": 1250, "currency": "EUR"}
KEY = "run_1/bill#ab/cd"


def look_up_call(url: str) -> LookUpCall:
    return LookUpCall(KEY, {"TARGET_URL": url}, ARGUMENTS, datetime.now(UTC))


async def test_request_carries_key_fence_and_body() -> None:
    async with an_http_target(lambda _: reply(201, {"id": "inv_9"})) as target:
        call = a_call(settings={"TARGET_URL": target.url + "/"}, operation_key=KEY)
        receipt = await create_invoice.call(call, ARGUMENTS)
    assert receipt == Receipt(Outcome.SUCCEEDED, value={"invoice_id": "inv_9"}, proof="http 201", external_id="inv_9")
    (request,) = target.requests
    assert (request.method, request.path, request.json()) == (
        "POST",
        "/invoices",
        {"customer": "Ada", "amount_cents": 1250, "currency": "EUR"},
    )
    assert request.headers["idempotency-key"] == KEY
    assert request.headers["x-outlive-fence"] == "7"


@pytest.mark.parametrize(
    ("answer", "outcome", "retryable"),
    [
        (reply(400), Outcome.FAILED, False),
        (reply(409), Outcome.FAILED, False),
        (reply(429), Outcome.FAILED, True),
        (reply(408), Outcome.UNKNOWN, False),
        (reply(425), Outcome.UNKNOWN, False),
        (reply(500), Outcome.UNKNOWN, False),
        (reply(503), Outcome.UNKNOWN, False),
        (reply(302, b"", location="/elsewhere"), Outcome.UNKNOWN, False),
        (reply(201, {"something": "else"}), Outcome.UNKNOWN, False),
        (reply(201, b"no json"), Outcome.UNKNOWN, False),
        (HANG_UP, Outcome.UNKNOWN, False),
        (b"HTTP/1.1 201 Created\r\ncontent-length: 100\r\n\r\n{", Outcome.UNKNOWN, False),
    ],
)
async def test_outcome_by_answer(answer: bytes, outcome: Outcome, retryable: bool) -> None:
    async with an_http_target(lambda _: answer) as target:
        receipt = await create_invoice.call(a_call(settings={"TARGET_URL": target.url}), ARGUMENTS)
    assert (receipt.outcome, receipt.retryable) == (outcome, retryable)
    assert len(target.requests) == 1


async def test_target_that_never_answers_leaves_the_outcome_open() -> None:
    async with an_http_target(lambda _: None) as target:
        scope = Scope(deadline=boottime() + 0.3)
        receipt = await create_invoice.call(a_call(settings={"TARGET_URL": target.url}, scope=scope), ARGUMENTS)
    assert receipt.outcome is Outcome.UNKNOWN


async def test_unreachable_target_got_nothing_for_certain() -> None:
    call = a_call(settings={"TARGET_URL": f"http://127.0.0.1:{unused_port()}"})
    receipt = await create_invoice.call(call, ARGUMENTS)
    assert (receipt.outcome, receipt.code, receipt.retryable) == (Outcome.FAILED, "unreachable", True)
    assert call.permit.is_used


async def test_void_permit_or_missing_setting_sends_nothing() -> None:
    async with an_http_target(lambda _: reply(201, {"id": "x"})) as target:
        call = a_call(settings={"TARGET_URL": target.url}, permit=a_permit(seconds=0))
        assert (await create_invoice.call(call, ARGUMENTS)).code == "permit_expired"
        used = a_permit()
        used.open()
        call = a_call(settings={"TARGET_URL": target.url}, permit=used)
        assert (await create_invoice.call(call, ARGUMENTS)).outcome is Outcome.UNKNOWN
        assert (await create_invoice.call(a_call(), ARGUMENTS)).code == "not_configured"
    assert target.requests == []


@pytest.mark.parametrize(
    ("answer", "found", "sealed"),
    [
        (reply(200, {"count": 1, "effects": [{"id": "inv_9"}], "fence": 7}), True, False),
        (reply(200, {"count": 2, "effects": [{"id": "inv_9"}, {"id": "inv_10"}]}), True, False),
        (reply(200, {"count": 0, "effects": [], "sealed": True}), False, True),
        (reply(404, {"error": "unknown key"}), False, False),
        (reply(404, b"nothing"), False, False),
        (reply(500), None, False),
        (reply(200, b"<html>"), None, False),
        (reply(200, {"count": "1"}), None, False),
        (HANG_UP, None, False),
    ],
)
async def test_look_up_tells_found_from_not_found_from_unclear(answer: bytes, found: bool | None, sealed: bool) -> None:
    async with an_http_target(lambda _: answer) as target:
        result = await look_up_invoice(look_up_call(target.url))
    assert (result.found, result.sealed) == (found, sealed)
    assert target.requests[0].path == "/operations/run_1%2Fbill%23ab%2Fcd"
    assert isinstance(result.raw, dict)
    if found:
        assert result.receipt is not None
        assert (result.receipt.external_id, result.receipt.proof) == ("inv_9", "look-up")


async def test_void_is_an_operation_of_its_own_key() -> None:
    def answer(request: Request) -> bytes:
        return reply(200, {"voided": True})

    receipt = Receipt(Outcome.SUCCEEDED, external_id="inv/9")
    arguments: dict[str, Any] = dict(ARGUMENTS)
    async with an_http_target(answer) as target:
        call = a_call(settings={"TARGET_URL": target.url}, operation_key="run_1/bill#ab/undo")
        done = await void_invoice(call, arguments, receipt)
    assert (done.outcome, done.external_id) == (Outcome.SUCCEEDED, "inv/9")
    assert target.requests[0].path == "/invoices/inv%2F9/void"
    assert target.requests[0].headers["idempotency-key"] == "run_1/bill#ab/undo"
