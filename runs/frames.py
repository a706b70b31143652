"""The frame: one event as JSON, the same bytes in the database, on a socket, in SSE and in a page.

Stored without its seq, because the seq is known only inside the statement that stores it; on the wire it is
`{"seq":N,` + the stored text without its first brace. ASCII only, so that U+2028, U+0085 and their kind cannot
split an SSE line in a careless client; U+0000 and lone surrogates become U+FFFD, since PostgreSQL and UTF-8
have no room for them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from runs.ids import text_id
from tools.plain_json import clean_json

BELL_BODY_BYTES = 65_536
GLUE = b",\n"  # between frames: JSON takes it, and a frame holds no newline, so SSE can split without parsing
_GLUE_TEXT = GLUE.decode()


def dump(value: Any) -> str:
    """Write compact ASCII JSON that PostgreSQL can store and any SSE client can read."""
    return json.dumps(clean_json(value), separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def write_time(at: datetime) -> str:
    """Write an aware time as `2026-11-29T12:00:00.123Z` (UTC, milliseconds)."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


@dataclass(frozen=True, slots=True)
class Draft:
    """An event that has no seq yet."""

    type: str
    text: str


@dataclass(frozen=True, slots=True)
class Origin:
    """Which stream an event belongs to."""

    run_id: UUID
    attempt: int
    stream_id: UUID


def draft(origin: Origin, kind: str, data: dict[str, Any], *, at: datetime, step_id: UUID | None = None) -> Draft:
    """Make an event of `kind` ready to be stored."""
    frame: dict[str, Any] = {
        "v": 1,
        "type": kind,
        "run_id": text_id("run", origin.run_id),
        "attempt": origin.attempt,
        "stream_id": text_id("st", origin.stream_id),
        "ts": write_time(at),
    }
    if step_id is not None:
        frame["step_id"] = text_id("step", step_id)
    frame["data"] = data
    return Draft(kind, dump(frame))


def encode(seq: int, text: str) -> bytes:
    """Give the stored text its seq: the bytes that every reader gets."""
    return b'{"seq":%d,%b' % (seq, text[1:].encode("ascii"))


def encode_all(numbered: Iterable[tuple[int, str]]) -> bytes:
    """Encode many stored texts with their seqs, joined: a third of the cost of one by one."""
    return _GLUE_TEXT.join([f'{{"seq":{seq},{text[1:]}' for seq, text in numbered]).encode("ascii")


def decode(seq: int, text: str) -> dict[str, Any]:
    """Read a stored event as the frame that a reader gets."""
    return {"seq": seq, **json.loads(text)}


def bell(stream_id: UUID, first_seq: int, texts: Sequence[str]) -> tuple[bytes, bytes]:
    """Make the doorbell of freshly committed events: (channel, payload).

    The payload is `<first seq> <count> <frame>,\n<frame>…`; above 64 KiB the frames are left out and readers
    fetch them from the database. A doorbell may be lost, repeated or late; no reader trusts it.
    """
    body = encode_all(enumerate(texts, first_seq))
    if len(body) > BELL_BODY_BYTES:
        body = b""
    return b"r:" + stream_id.hex.encode(), b"%d %d %b" % (first_seq, len(texts), body)


def worker_bell(worker: str, run_id: UUID) -> tuple[bytes, bytes]:
    """Make the doorbell that asks a worker to look at one run's row now (a cancel was recorded)."""
    return b"w:" + worker.encode(), run_id.hex.encode()


def tenant_bell(tenant_id: UUID, run_id: UUID, version: int) -> tuple[bytes, bytes]:
    """Make the doorbell of a tenant's run list: this run has this version now."""
    return b"t:" + tenant_id.hex.encode(), b"%b %d" % (text_id("run", run_id).encode(), version)
