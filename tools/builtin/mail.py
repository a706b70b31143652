"""The tool send_mail: an effect whose target takes no key. What is known of it rests on the SMTP answers.

up to the DATA command, connection lost or 4xx/5xx   -> ToolError: nothing was handed over
4xx/5xx to the message itself                        -> ToolError: the server did not take it
connection lost or time over after DATA began        -> OutcomeUnknown
250 to the message                                   -> sent, as far as we can ever know
"""

import asyncio
from collections.abc import Mapping, Sequence
from email.message import EmailMessage
from typing import Annotated

import aiosmtplib
from pydantic import Field

from tools.builtin.http_effects import look_up_operation, setting
from tools.builtin.letters import build_letter, check_address
from tools.call import LookUpCall, ToolCall
from tools.effects import Effect, LookUp, Outcome, Receipt
from tools.errors import OutcomeUnknown, ToolError
from tools.tool import tool

LOOK_UP_SETTING = "MAIL_LOOKUP_URL"
REQUEST_SECONDS = 30.0

MailAddress = Annotated[str, Field(min_length=3, max_length=254)]


async def look_up_mail(call: LookUpCall) -> LookUp:
    """Ask the mail target by operation key. Plain SMTP has no such question: only with MAIL_LOOKUP_URL."""
    return await look_up_operation(setting(call.settings, LOOK_UP_SETTING), call.operation_key)


@tool(
    effect=Effect.WRITE,
    look_up=look_up_mail,
    look_up_setting=LOOK_UP_SETTING,
    timeout_seconds=40,
    request_timeout_seconds=REQUEST_SECONDS,
    target_bound_seconds=10,
)
async def send_mail(
    call: ToolCall,
    to: Annotated[list[MailAddress], Field(min_length=1, max_length=50)],
    subject: Annotated[str, Field(max_length=500)],
    body: Annotated[str, Field(max_length=1_000_000)],
) -> Receipt:
    """Send a plain text mail to one or more people. Either all of them are accepted, or nothing is sent."""
    sender = check_address(setting(call.settings, "SMTP_FROM"))
    setting(call.settings, "SMTP_HOST")
    letter = build_letter(
        sender=sender, to=to, subject=subject, body=body, operation_key=call.operation_key, fence=call.fence
    )
    client = _client(call.settings)
    handed_over = _HandedOver()
    call.open()
    try:
        async with asyncio.timeout(min(REQUEST_SECONDS, call.remaining())):
            answer = await _send(client, letter, sender, to, handed_over)
    except aiosmtplib.SMTPResponseException as error:
        if handed_over.began and not 500 <= error.code < 600:
            raise OutcomeUnknown(f"The mail was handed over and answered {error.code} {error.message}") from error
        raise ToolError(
            f"The mail server refused: {error.code} {error.message}",
            code=f"smtp_{error.code}",
            retryable=400 <= error.code < 500,
        ) from error
    except (aiosmtplib.SMTPException, OSError, TimeoutError) as error:
        what = f"{type(error).__name__} {error}".strip()
        if handed_over.began:
            raise OutcomeUnknown(f"The mail was handed over, but the server's answer did not come ({what}).") from error
        raise ToolError(
            f"The mail server could not be reached ({what}).", code="unreachable", retryable=True
        ) from error
    finally:
        client.close()
    return Receipt(
        Outcome.SUCCEEDED,
        value={"message_id": letter["Message-ID"], "to": list(to)},
        proof=f"smtp {answer.code}",
        external_id=letter["Message-ID"],
    )


class _HandedOver:
    """Whether the message itself may have reached the server."""

    def __init__(self) -> None:
        self.began = False


def _client(settings: Mapping[str, str]) -> aiosmtplib.SMTP:
    """SMTP_TLS: "none" (default), "starttls" or "tls"."""
    security = settings.get("SMTP_TLS", "none")
    if security not in ("none", "starttls", "tls"):
        raise ToolError(f"SMTP_TLS is {security!r}; it must be none, starttls or tls.", code="not_configured")
    port = settings.get("SMTP_PORT") or {"none": "25", "starttls": "587", "tls": "465"}[security]
    if not port.isdecimal():
        raise ToolError(f"SMTP_PORT is {port!r}; it must be a number.", code="not_configured")
    return aiosmtplib.SMTP(
        hostname=settings["SMTP_HOST"],
        port=int(port),
        use_tls=security == "tls",
        start_tls=security == "starttls",
        username=settings.get("SMTP_USER") or None,
        password=settings.get("SMTP_PASSWORD") or None,
        timeout=REQUEST_SECONDS,
    )


async def _send(
    client: aiosmtplib.SMTP,
    letter: EmailMessage,
    sender: str,
    to: Sequence[str],
    handed_over: _HandedOver,
) -> aiosmtplib.SMTPResponse:
    await client.connect()
    await client.mail(sender)
    for address in to:
        await client.rcpt(address)  # raises at the first refusal: all or none
    handed_over.began = True
    return await client.data(letter.as_bytes())
