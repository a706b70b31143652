"""What the demo target did, per operation key, kept in an append-only file that survives a restart.

One JSON object per line, flushed to disk before anybody hears about it:

    {"type": "effect", "key", "kind", "id", "at", "fence", "digest", "data"}     something happened, for good
    {"type": "fence", "key", "fence"}                                          a higher fence was seen for the key
    {"type": "seal", "key", "at"}                                              the key is refused from now on

A last line that a crash cut is dropped when the file is opened: nobody was told about it.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that happened. at: Unix seconds. digest: of the request's body, to tell a repeat from a misuse."""

    key: str
    kind: str
    id: str
    at: float
    fence: int | None
    digest: str
    data: dict[str, Any]

    def public(self) -> dict[str, Any]:
        """Return what the routes show: {"key", "kind", "id", "at", "fence"} and the fields of data."""
        return {**self.data, "key": self.key, "kind": self.kind, "id": self.id, "at": self.at, "fence": self.fence}


class Refused(Exception):
    """The request is refused for certain and had no effect. `code` is stable; `status` is its HTTP status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(slots=True)
class _Key:
    effects: list[Effect] = field(default_factory=list)
    fence: int | None = None
    sealed: bool = False


class Ledger:
    """The effects of all keys, in memory and on disk. One thread uses it, so each method is one step."""

    def __init__(self, path: Path) -> None:
        """Open or create the file and read it. Raises ValueError when a line other than the last is damaged."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._keys: dict[str, _Key] = {}
        self._file = open(path, "a+b")
        try:
            self._read()
        except Exception:
            self._file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def admit(self, key: str, fence: int | None) -> None:
        """Check that a request with this key and fence may act, and remember the fence.

        Raises: Refused 410 when the key is sealed, 409 when a higher fence was seen before (a frozen worker woke up).
        """
        entry = self._keys.setdefault(key, _Key())
        if entry.sealed:
            raise Refused(410, "sealed", "This operation key is sealed.")
        if fence is None:
            return
        if entry.fence is not None and fence < entry.fence:
            raise Refused(409, "stale_fence", f"Fence {fence} is older than {entry.fence}.")
        if entry.fence is None or fence > entry.fence:
            entry.fence = fence
            self._append({"type": "fence", "key": key, "fence": fence})

    def add(self, effect: Effect) -> None:
        """Let it happen: it is on disk when this returns."""
        self._append({"type": "effect", **asdict(effect)})
        self._keys.setdefault(effect.key, _Key()).effects.append(effect)

    def seal(self, key: str, *, at: float) -> int:
        """Refuse the key from now on; return how many effects it has. Sealing twice changes nothing."""
        entry = self._keys.setdefault(key, _Key())
        if not entry.sealed:
            self._append({"type": "seal", "key": key, "at": at})
            entry.sealed = True
        return len(entry.effects)

    def describe(self, key: str) -> dict[str, Any]:
        """Return {"key", "count", "fence", "sealed", "effects"}; a key that nobody used has count 0."""
        entry = self._keys.get(key, _Key())
        effects = [effect.public() for effect in entry.effects]
        return {
            "key": key,
            "count": len(effects),
            "fence": entry.fence,
            "sealed": entry.sealed,
            "effects": effects,
        }

    def find(self, key: str) -> Effect | None:
        """Return the first effect of the key."""
        entry = self._keys.get(key)
        return entry.effects[0] if entry and entry.effects else None

    def effects(self, *, prefix: str = "", kind: str = "") -> list[Effect]:
        """Return the effects whose key starts with prefix (and of this kind), oldest first."""
        found = (e for key, entry in self._keys.items() if key.startswith(prefix) for e in entry.effects)
        return sorted((e for e in found if not kind or e.kind == kind), key=lambda e: e.at)

    def _append(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole, _, cut = content.rpartition(b"\n")
        if cut:
            self._file.truncate(len(content) - len(cut))
        for record in _records(whole):
            entry = self._keys.setdefault(record["key"], _Key())
            kind = record.pop("type")
            if kind == "effect":
                entry.effects.append(Effect(**record))
            elif kind == "fence":
                entry.fence = record["fence"]
            elif kind == "seal":
                entry.sealed = True


def _records(lines: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise ValueError(f"Line {number} of the target's state file is damaged.") from error
