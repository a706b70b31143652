"""Builds the message of send_mail: nothing an agent says can add a header or a recipient."""

import hashlib
import re
from collections.abc import Sequence
from email.message import EmailMessage
from email.policy import SMTP

from tools.errors import ToolError

# Deliberately narrower than RFC 5322: no quotes, no comments, no groups, ASCII only. One address per entry.
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
_HEADER_SAFE = re.compile(r"[\x21-\x7e]{1,500}")


class AddressInvalid(ToolError):
    """A mail address is none, or tries to be more than one."""

    def __init__(self, address: str) -> None:
        super().__init__(f"{address[:200]!r} is not a mail address.", code="mail_address_invalid")
        self.address = address


def check_address(address: str) -> str:
    """Return the address. Raises AddressInvalid."""
    if not _ADDRESS.fullmatch(address):
        raise AddressInvalid(address)
    return address


def message_id(operation_key: str, sender: str) -> str:
    """Return the Message-ID of an operation: the same key gives the same id, so a repeat can be told by anybody."""
    digest = hashlib.sha256(operation_key.encode()).hexdigest()[:40]
    return f"<outlive.{digest}@{sender.partition('@')[2]}>"


def build_letter(
    *, sender: str, to: Sequence[str], subject: str, body: str, operation_key: str, fence: int
) -> EmailMessage:
    """Return the message. Raises ToolError when an address or the subject would break out of its header."""
    if any(ord(char) < 32 or ord(char) in (127, 0x85, 0x2028, 0x2029) for char in subject):
        raise ToolError("The subject holds a control character.", code="mail_subject_invalid")
    if not _HEADER_SAFE.fullmatch(operation_key):
        raise ToolError("The operation key cannot stand in a header.", code="mail_key_invalid")
    letter = EmailMessage(policy=SMTP)
    letter["From"] = check_address(sender)
    letter["To"] = ", ".join(check_address(address) for address in to)
    letter["Subject"] = subject
    letter["Message-ID"] = message_id(operation_key, sender)
    letter["X-Outlive-Operation-Key"] = operation_key
    letter["X-Outlive-Fence"] = str(fence)
    letter.set_content(body)
    return letter
