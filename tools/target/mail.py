"""Take mail by SMTP and record it as an effect; spoil the answer to DATA as the switches say.

The operation key is the header X-Outlive-Operation-Key, the fence X-Outlive-Fence. Unlike invoices, mail knows no
repeat: the same key again is a second effect, as it would be with a real mail server. Without a key the message's
Message-ID counts as one.
"""

import asyncio
import email
import email.policy
import hashlib
import time
import uuid
from email.message import EmailMessage

from aiosmtpd.smtp import SMTP, Envelope, Session

from tools.target.ledger import Effect, Ledger, Refused
from tools.target.routes import parse_fence
from tools.target.server import reset
from tools.target.switches import SwitchBoard

SIZE_LIMIT_BYTES = 10 << 20
TEXT_LIMIT = 20_000  # characters of the body that are kept to look at


class MailHandler:
    """What aiosmtpd calls for each message."""

    def __init__(self, ledger: Ledger, board: SwitchBoard) -> None:
        self._ledger = ledger
        self._board = board

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Record the mail, then answer as the switches say."""
        content = envelope.content or b""
        raw = content if isinstance(content, bytes) else content.encode()
        message = email.message_from_bytes(raw, _class=EmailMessage, policy=email.policy.default)
        key = str(message["X-Outlive-Operation-Key"] or message["Message-ID"] or f"mail-{uuid.uuid4().hex}").strip()
        try:
            fence = parse_fence(_header(message, "X-Outlive-Fence"))
            self._ledger.admit(key, fence)
        except Refused as refused:
            return f"550 5.7.1 {refused.code}: {refused.message}"
        spoilt_by = self._board.take(key)
        if spoilt_by.refuse:
            return "550 5.7.1 refused: The target refuses this mail. Nothing happened."
        effect = Effect(
            key=key,
            kind="mail.sent",
            id=f"mail_{uuid.uuid4().hex[:12]}",
            at=time.time(),
            fence=fence,
            digest=hashlib.sha256(raw).hexdigest(),
            data={
                "from": envelope.mail_from,
                "to": list(envelope.rcpt_tos),
                "subject": _header(message, "Subject"),
                "message_id": _header(message, "Message-ID"),
                "text": _text(message),
            },
        )
        self._ledger.add(effect)
        if spoilt_by.delay_seconds:
            await asyncio.sleep(spoilt_by.delay_seconds)
        if spoilt_by.fail_after_effect:
            return "451 4.3.0 Something went wrong."
        if spoilt_by.drop_after_commit:
            reset(server._writer)  # aiosmtpd has no public word for cutting a connection
        if spoilt_by.drop_after_commit or spoilt_by.never_answer:
            await asyncio.Event().wait()  # ends when the client gives up: aiosmtpd cancels its handler
        return f"250 2.0.0 OK queued as {effect.id}"


def _header(message: EmailMessage, name: str) -> str | None:
    value = message[name]
    return None if value is None else str(value).strip()


def _text(message: EmailMessage) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    try:
        return str(part.get_content())[:TEXT_LIMIT]
    except (LookupError, KeyError):  # an unknown charset or content type
        return ""


async def serve_mail(handler: MailHandler, *, host: str, port: int) -> asyncio.Server:
    """Start to listen and return the server. Raises OSError when the port is taken."""
    loop = asyncio.get_running_loop()

    def connected() -> SMTP:
        return SMTP(handler, hostname="target", ident="Demo target", data_size_limit=SIZE_LIMIT_BYTES, loop=loop)

    return await loop.create_server(connected, host, port)
