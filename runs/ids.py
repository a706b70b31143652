"""Names of things on the outside: a prefix that tells the kind, and a UUIDv7 that sorts by birth.

Inside, every id is a plain `uuid.UUID`; the prefix exists only in URLs, answers, frames and logs.
"""

import re
from uuid import UUID

from uuid_utils.compat import uuid7

PREFIXES = frozenset(
    {"run", "st", "step", "op", "q", "msg", "art", "doc", "cancel", "comp", "conn", "conv", "evid", "next", "shell"}
)
_HEX = re.compile(r"[0-9a-f]{32}")


class BadId(ValueError):
    """The text is not an id of this kind; outside it is answered like an id that does not exist."""


def new_id() -> UUID:
    """Make a UUIDv7: unique everywhere, and later ids sort after earlier ones (to the millisecond)."""
    return uuid7()


def id_after(older: UUID) -> UUID:
    """Make a UUIDv7 that sorts after `older` even if that one was made by a clock ahead of ours.

    Runs are locked by id, and that must be from a parent to its children (RULES H14).
    """
    fresh = uuid7()
    if fresh > older:
        return fresh
    millisecond = (older.int >> 80) + 1
    return UUID(int=(millisecond << 80) | (fresh.int & ((1 << 80) - 1)))


def text_id(prefix: str, value: UUID) -> str:
    """Write an id for the outside, `run_0192…` (the prefix and 32 hex digits)."""
    assert prefix in PREFIXES  # a typo here would make ids that nobody can read back
    return f"{prefix}_{value.hex}"


def parse_id(prefix: str, text: str) -> UUID:
    """Read an id from the outside.

    Raises: BadId when the prefix is another one or the rest is not 32 lower-case hex digits.
    """
    head, _, digits = text.partition("_")
    if head != prefix or not _HEX.fullmatch(digits):
        raise BadId(f"{text[:60]!r} is no {prefix} id")
    return UUID(digits)
