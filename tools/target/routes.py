"""The routes of the demo target as plain functions: a request in, a reply out; no sockets.

    POST /invoices                    {"customer", "amount_cents", "currency", "memo"}; Idempotency-Key, X-Outlive-Fence
    POST /invoices/{id}/void          an Idempotency-Key of its own
    GET  /operations/{key}            200 {"key", "count", "fence", "sealed", "effects"}, or 404 with count 0
    POST /operations/{key}/seal       {"key", "count", "sealed": true}
    GET  /effects?prefix=             {"effects": [...]}
    GET  /mails                       {"mails": [...]}
    GET, PUT, POST /switches          see tools.target.switches; POST is the page's form
    GET  /                            a page for people

Refusals are {"code", "message"}: 400 key_required | bad_request, 404, 409 stale_fence, 410 sealed, 422 invalid |
key_reused | refused.
"""

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.target.ledger import Effect, Ledger, Refused
from tools.target.page import render_page
from tools.target.switches import GOOD, SwitchBoard, Switches

KEY_LIMIT = 512
_FLAGS = ("drop_after_commit", "never_answer", "fail_after_effect", "refuse", "lookup_fails")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request. headers: lower-case names. target: path and query as sent."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP reply, and how the switches spoil it (tools.target.server does that)."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    spoilt_by: Switches = GOOD


class InvoiceBody(BaseModel):
    """What an invoice needs."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)
    customer: str = Field(min_length=1, max_length=200)
    amount_cents: int = Field(ge=1, le=10**12, strict=True)
    currency: str = Field(default="EUR", pattern=r"^[A-Z]{3}$")
    memo: str = Field(default="", max_length=2000)


class Routes:
    """The target's behaviour over one ledger and one switch board."""

    def __init__(self, ledger: Ledger, board: SwitchBoard) -> None:
        self.ledger = ledger
        self.board = board

    def handle(self, request: Request) -> Reply:
        """Return the reply; effects are on disk by then. Never raises for what a client can send."""
        try:
            return self._route(request)
        except Refused as refused:
            return as_json(refused.status, {"code": refused.code, "message": refused.message})
        except ValidationError as error:
            fields = [{"field": ".".join(map(str, e["loc"])), "message": e["msg"]} for e in error.errors()]
            return as_json(422, {"code": "invalid", "message": "The body is not valid.", "fields": fields})

    def _route(self, request: Request) -> Reply:
        path, _, query = request.target.partition("?")
        parts = [unquote(part) for part in path.strip("/").split("/")]
        match request.method, parts:
            case "GET", [""]:
                return self._page()
            case "POST", ["invoices"]:
                return self._create_invoice(request)
            case "POST", ["invoices", invoice, "void"]:
                return self._void_invoice(request, invoice)
            case "GET", ["operations", key]:
                return self._look_up(key)
            case "POST", ["operations", key, "seal"]:
                count = self.ledger.seal(_checked_key(key), at=time.time())
                return as_json(200, {"key": key, "count": count, "sealed": True})
            case "GET", ["effects"]:
                prefix = parse_qs(query).get("prefix", [""])[0]
                return as_json(200, {"effects": [e.public() for e in self.ledger.effects(prefix=prefix)]})
            case "GET", ["mails"]:
                return as_json(200, {"mails": [e.public() for e in self.ledger.effects(kind="mail.sent")]})
            case "GET", ["switches"]:
                return as_json(200, self.board.now.model_dump())
            case "PUT", ["switches"]:
                self.board.now = Switches.model_validate_json(request.body or b"{}")
                return as_json(200, self.board.now.model_dump())
            case "POST", ["switches"]:
                return self._flip(request)
        raise Refused(404, "not_found", "There is nothing here.")

    def _create_invoice(self, request: Request) -> Reply:
        body = InvoiceBody.model_validate_json(request.body)
        data = {**body.model_dump(), "id": f"inv_{uuid.uuid4().hex[:12]}", "status": "open"}
        effect, spoilt_by, is_new = self._perform(request, kind="invoice.created", data=data)
        return self._answer(201 if is_new else 200, self._invoice(effect), spoilt_by)

    def _void_invoice(self, request: Request, invoice: str) -> Reply:
        created = [e for e in self.ledger.effects(kind="invoice.created") if e.id == invoice]
        if not created:
            raise Refused(404, "not_found", "There is no such invoice.")
        effect, spoilt_by, _ = self._perform(request, kind="invoice.voided", data={"id": invoice})
        return self._answer(200, {**self._invoice(created[0]), "voided_at": effect.at}, spoilt_by)

    def _perform(self, request: Request, *, kind: str, data: dict[str, Any]) -> tuple[Effect, Switches, bool]:
        """Return the effect of this key, the switches that apply, and whether it happened just now."""
        key = _checked_key(request.headers.get("idempotency-key", ""))
        fence = parse_fence(request.headers.get("x-outlive-fence"))
        digest = hashlib.sha256(request.target.encode() + b"\n" + request.body).hexdigest()
        self.ledger.admit(key, fence)
        before = self.ledger.find(key)
        if before is not None and (before.kind, before.digest) != (kind, digest):
            raise Refused(422, "key_reused", "This key was used for another request.")
        spoilt_by = self.board.take(key)
        if before is not None:
            return before, spoilt_by, False
        if spoilt_by.refuse:
            raise Refused(422, "refused", "The target refuses this request. Nothing happened.")
        effect = Effect(key, kind, data["id"], time.time(), fence, digest, data)
        self.ledger.add(effect)
        return effect, spoilt_by, True

    def _invoice(self, created: Effect) -> dict[str, Any]:
        voided = any(e.id == created.id for e in self.ledger.effects(kind="invoice.voided"))
        return {**created.data, "status": "void" if voided else "open", "created_at": created.at}

    def _answer(self, status: int, body: dict[str, Any], spoilt_by: Switches) -> Reply:
        if spoilt_by.fail_after_effect:
            failure = as_json(500, {"code": "internal", "message": "Something went wrong."})
            return Reply(failure.status, failure.body, failure.headers, spoilt_by)
        good = as_json(status, body)
        return Reply(good.status, good.body, good.headers, spoilt_by)

    def _look_up(self, key: str) -> Reply:
        if self.board.take(_checked_key(key), lookup=True).lookup_fails:
            raise Refused(503, "unavailable", "The look-up does not work right now.")
        found = self.ledger.describe(key)
        return as_json(200 if found["count"] else 404, found)

    def _page(self) -> Reply:
        page = render_page(self.ledger.effects(), self.board.now)
        policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'"
        headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": policy}
        return Reply(200, page.encode(), headers)

    def _flip(self, request: Request) -> Reply:
        """Take the page's form. Another site's page must not flip switches, so the Origin must be our own."""
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
            raise Refused(403, "foreign_origin", "This form was sent from another site.")
        form = parse_qs(request.body.decode("utf-8", "replace"))
        values: dict[str, Any] = {name: name in form for name in _FLAGS}
        values["delay_seconds"] = form.get("delay_seconds", ["0"])[0]
        values["key_prefix"] = form.get("key_prefix", [""])[0] or None
        values["times"] = form.get("times", [""])[0] or None
        self.board.now = Switches.model_validate(values)
        return Reply(303, b"", {"location": "/"})


def as_json(status: int, value: dict[str, Any]) -> Reply:
    """Return a JSON reply."""
    return Reply(status, json.dumps(value).encode(), {"content-type": "application/json"})


def parse_fence(text: str | None) -> int | None:
    """Return the fence of a header value, None where there is none. Raises Refused 400 when it is no number."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise Refused(400, "bad_request", "X-Outlive-Fence must be a whole number.")
    return int(text)


def _checked_key(key: str) -> str:
    if not key:
        raise Refused(400, "key_required", "The header Idempotency-Key is required.")
    if len(key) > KEY_LIMIT:
        raise Refused(400, "bad_request", f"The key is longer than {KEY_LIMIT} characters.")
    return key
