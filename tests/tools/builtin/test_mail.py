"""send_mail against a real SMTP server that can refuse or hang up at each step."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email import message_from_bytes
from email.policy import default

import pytest

from tests.tools.builders import a_call, a_permit
from tests.tools.http_target import an_http_target, reply, unused_port
from tools import LookUpCall, Outcome
from tools.builtin import send_mail
from tools.builtin.mail import look_up_mail

LETTER = {"to": ["a@example.org", "b@example.org"], "subject": "H\u00e9llo", "body": "Text\n.\nmore"}


@dataclass
class SmtpTarget:
    """Answers "250 ok", or what `answers` says for a verb ("MESSAGE" = the end of the message); "" hangs up."""

    port: int = 0
    answers: dict[str, str] = field(default_factory=dict)
    letters: list[bytes] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        return {"SMTP_HOST": "127.0.0.1", "SMTP_PORT": str(self.port), "SMTP_FROM": "agent@outlive.example"}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._say(writer, "HELLO", "220 ready")
            while line := await reader.readline():
                verb = line.split(b" ")[0].strip().upper().decode()
                if verb == "QUIT":
                    break
                if not await self._say(writer, verb, "354 go on" if verb == "DATA" else "250 ok"):
                    break
                if verb == "DATA" and "DATA" not in self.answers:
                    self.letters.append((await reader.readuntil(b"\r\n.\r\n"))[:-3].replace(b"\r\n..", b"\r\n."))
                    if not await self._say(writer, "MESSAGE", "250 queued"):
                        break
        writer.close()

    async def _say(self, writer: asyncio.StreamWriter, verb: str, usual: str) -> bool:
        text = self.answers.get(verb, usual)
        if not text:
            writer.transport.abort()
            return False
        writer.write(text.encode() + b"\r\n")
        await writer.drain()
        return True


@contextlib.asynccontextmanager
async def an_smtp_target(**answers: str) -> AsyncIterator[SmtpTarget]:
    target = SmtpTarget(answers=answers)
    server = await asyncio.start_server(target.serve, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    async with server:
        yield target
        server.close()


async def test_letter_carries_key_fence_and_an_id_that_a_repeat_shares() -> None:
    async with an_smtp_target() as target:
        first = await send_mail.call(a_call(settings=target.settings), LETTER)
        second = await send_mail.call(a_call(settings=target.settings), LETTER)
    assert (first.outcome, first.proof) == (Outcome.SUCCEEDED, "smtp 250")
    assert first.external_id == second.external_id
    letter = message_from_bytes(target.letters[0], policy=default)
    assert letter["Message-ID"] == first.external_id
    assert letter["X-Outlive-Operation-Key"] == "run_1/send#1"
    assert letter["X-Outlive-Fence"] == "7"
    assert letter["To"] == "a@example.org, b@example.org"
    assert letter["Subject"] == "H\u00e9llo"
    assert letter.get_content() == "Text\r\n.\r\nmore\r\n"


@pytest.mark.parametrize(
    ("answers", "outcome", "code", "retryable"),
    [
        ({"HELLO": "554 no"}, Outcome.FAILED, None, None),
        ({"HELLO": ""}, Outcome.FAILED, "unreachable", True),
        ({"MAIL": "550 no"}, Outcome.FAILED, "smtp_550", False),
        ({"RCPT": "450 later"}, Outcome.FAILED, "smtp_450", True),
        ({"RCPT": ""}, Outcome.FAILED, "unreachable", True),
        ({"DATA": "554 no"}, Outcome.FAILED, "smtp_554", False),
        ({"MESSAGE": "552 too much"}, Outcome.FAILED, "smtp_552", False),
        ({"MESSAGE": "451 later"}, Outcome.UNKNOWN, "outcome_unknown", False),
        ({"MESSAGE": ""}, Outcome.UNKNOWN, "outcome_unknown", False),
        ({"MESSAGE": "what?"}, Outcome.UNKNOWN, "outcome_unknown", False),
    ],
)
async def test_outcome_by_where_the_talk_broke_off(
    answers: dict[str, str], outcome: Outcome, code: str | None, retryable: bool | None
) -> None:
    async with an_smtp_target(**answers) as target:
        receipt = await send_mail.call(a_call(settings=target.settings), LETTER)
    assert receipt.outcome is outcome, receipt
    if code is not None:
        assert (receipt.code, receipt.retryable) == (code, retryable)


async def test_unreachable_server_got_nothing_for_certain() -> None:
    settings = SmtpTarget(port=unused_port()).settings
    receipt = await send_mail.call(a_call(settings=settings), LETTER)
    assert (receipt.outcome, receipt.code, receipt.retryable) == (Outcome.FAILED, "unreachable", True)


@pytest.mark.parametrize(
    "change",
    [
        {"to": ["a@example.org\r\nBcc: c@example.org"]},
        {"to": ["a@example.org, c@example.org"]},
        {"to": ["A <a@example.org>"]},
        {"to": ["a@example.org\u2028"]},
        {"to": ["a@exa\u0000mple.org"]},
        {"to": []},
        {"subject": "Hi\r\nBcc: c@example.org"},
        {"subject": "Hi\u0085Bcc: c@example.org"},
    ],
)
async def test_nothing_an_agent_says_adds_a_header_or_a_recipient(change: dict[str, object]) -> None:
    async with an_smtp_target() as target:
        call = a_call(settings=target.settings)
        receipt = await send_mail.call(call, {**LETTER, **change})
    assert receipt.outcome is Outcome.FAILED
    assert not call.permit.is_used
    assert target.letters == []


async def test_void_permit_or_missing_setting_sends_nothing() -> None:
    async with an_smtp_target() as target:
        call = a_call(settings=target.settings, permit=a_permit(seconds=0))
        assert (await send_mail.call(call, LETTER)).code == "permit_expired"
        assert (await send_mail.call(a_call(), LETTER)).code == "not_configured"
    assert target.letters == []


async def test_look_up_needs_its_setting_and_asks_by_key() -> None:
    assert not send_mail.can_look_up({"SMTP_HOST": "x"})
    async with an_http_target(lambda _: reply(200, {"count": 1, "effects": [{"to": ["a"]}]})) as target:
        settings = {"MAIL_LOOKUP_URL": target.url}
        assert send_mail.can_look_up(settings)
        result = await look_up_mail(LookUpCall("run_1/send#1", settings, LETTER, datetime.now(UTC)))
    assert result.found is True
    assert target.requests[0].path == "/operations/run_1%2Fsend%231"
