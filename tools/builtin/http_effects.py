"""HTTP requests with an effect: sent once, under a permit, and honest about what is not known.

no byte of the request left        -> ToolError, retryable: nothing happened
2xx                                -> the answer
4xx but 408, 425                   -> ToolError: refused for certain (429 retryable)
408, 425, 5xx, other, no answer    -> OutcomeUnknown: something between us and the target may have passed it on
"""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import httpx

from tools.call import ToolCall
from tools.effects import JSON, LookUp, Outcome, Receipt
from tools.errors import OutcomeUnknown, ToolError
from tools.plain_json import clean_json
from tools.trust import trust

LOOK_UP_SECONDS = 5.0


def setting(settings: Mapping[str, str], name: str) -> str:
    """Return a setting that has to be there. Raises ToolError that names it."""
    value = settings.get(name, "").strip()
    if not value:
        raise ToolError(f"The setting {name} is not set; an operator has to set it.", code="not_configured")
    return value


def key_headers(call: ToolCall) -> dict[str, str]:
    """Return what a target needs to refuse a repeat (the key) and a worker of the past (the fence)."""
    return {"Idempotency-Key": call.operation_key, "X-Outlive-Fence": str(call.fence)}


async def post_once(call: ToolCall, url: str, body: JSON, *, timeout_seconds: float) -> httpx.Response:
    """Use the permit, POST `body` with the operation key, and return a 2xx answer.

    The whole request has min(timeout_seconds, call.remaining()). No redirect is followed: a target that moved is an
    operator's matter. Raises: as the table above; PermitExpired, PermitUsed.
    """
    sent = _Sent()
    async with httpx.AsyncClient(trust_env=False, timeout=None, verify=trust()) as client:
        request = client.build_request(
            "POST", url, json=body, headers=key_headers(call), extensions={"trace": sent.trace}
        )
        call.open()
        try:
            async with asyncio.timeout(min(timeout_seconds, call.remaining())):
                response = await client.send(request)
        except (httpx.HTTPError, TimeoutError) as error:
            what = f"{type(error).__name__} {error}".strip()
            if not sent.first_byte:
                raise ToolError(f"{url} could not be reached ({what}).", code="unreachable", retryable=True) from error
            raise OutcomeUnknown(f"{url} was asked, but its answer did not come ({what}).") from error
    _judge(url, response)
    return response


class _Sent:
    """Learns from the transport whether a byte of the request may have left."""

    def __init__(self) -> None:
        self.first_byte = False

    async def trace(self, event: str, _: dict[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            self.first_byte = True


def _judge(url: str, response: httpx.Response) -> None:
    status = response.status_code
    if 200 <= status < 300:
        return
    text = response.text[:500]
    if 400 <= status < 500 and status not in (408, 425):
        raise ToolError(f"{url} refused: {status} {text}", code=f"http_{status}", retryable=status == 429)
    raise OutcomeUnknown(f"{url} answered {status} {text}")


async def look_up_operation(base_url: str, key: str) -> LookUp:
    """Ask GET {base_url}/operations/{key} what the target did under this key. Never raises for a target's fault.

    200 {"key", "count", "effects": [...], "fence"?, "sealed"?} -> found when count > 0; 404 -> not found; else unclear.
    More than one effect is found too; the evidence in `raw` shows the count.
    """
    url = f"{base_url.rstrip('/')}/operations/{quote(key, safe='')}"
    asked_at = datetime.now(UTC).isoformat()
    try:
        async with (
            asyncio.timeout(LOOK_UP_SECONDS),
            httpx.AsyncClient(trust_env=False, timeout=None, verify=trust()) as client,
        ):
            response = await client.get(url)
    except (httpx.HTTPError, TimeoutError) as error:
        return LookUp(None, raw={"url": url, "asked_at": asked_at, "error": f"{type(error).__name__} {error}".strip()})
    raw: dict[str, JSON] = {"url": url, "asked_at": asked_at, "status": response.status_code}
    answer = json_of(response)
    raw["answer"] = answer
    if not isinstance(answer, dict):
        return LookUp(False if response.status_code == 404 else None, raw=raw)
    sealed = answer.get("sealed") is True
    count = answer.get("count")
    if response.status_code == 404 or (response.status_code == 200 and count == 0):
        return LookUp(False, raw=raw, sealed=sealed)
    if response.status_code != 200 or isinstance(count, bool) or not isinstance(count, int) or count < 0:
        return LookUp(None, raw=raw)
    effects = answer.get("effects")
    first = effects[0] if isinstance(effects, list) and effects else None
    return LookUp(True, receipt=Receipt(Outcome.SUCCEEDED, value=first, proof="look-up"), raw=raw, sealed=sealed)


def json_of(response: httpx.Response) -> JSON:
    """Return the answer's body as clean JSON, None when it is none."""
    try:
        return clean_json(response.json())
    except ValueError:
        return None
