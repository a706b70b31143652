"""What a reader of a stream gets: each event once and in order, and the gaps and snapshots in between."""

from dataclasses import dataclass
from typing import Any

Frame = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `frame` is all of it, as docs/PROTOCOL.md describes it."""

    frame: Frame

    @property
    def type(self) -> str:
        """What happened: "text.delta", "run.completed", …"""
        return str(self.frame["type"])

    @property
    def seq(self) -> int:
        """Its place in the stream, from 1."""
        return int(self.frame["seq"])

    @property
    def data(self) -> dict[str, Any]:
        """What the type says more."""
        data = self.frame.get("data")
        return data if isinstance(data, dict) else {}

    @property
    def cursor(self) -> str:
        """Where to go on once it is applied."""
        return f"{self.frame['stream_id']}:{self.frame['seq']}"


@dataclass(frozen=True, slots=True)
class Gap:
    """The events after the cursor cannot be given; a snapshot follows at once."""

    frame: Frame

    @property
    def reason(self) -> str:
        """trimmed, ahead, other_stream, new_attempt or slow."""
        return str(self.frame.get("reason"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole view of the run at `cursor`, in place of the events up to there (runs.fold goes on with it)."""

    frame: Frame

    @property
    def view(self) -> dict[str, Any]:
        """What a fold of all events up to the cursor gives."""
        view: dict[str, Any] = self.frame["view"]
        return view

    @property
    def cursor(self) -> str:
        """Where to go on once it is applied."""
        return str(self.frame["cursor"])


@dataclass(frozen=True, slots=True)
class Note:
    """Any other control frame: ready, caught_up, heartbeat, closing, problem, or one that is not known here."""

    frame: Frame


Item = Event | Gap | Snapshot | Note
