"""Where a client of a shell's socket stands: which byte comes next, what it typed and was not taken. Pure.

It may be cut at any point; `query` and `again` are what the next connection begins with, so that no byte of output is
missing or painted twice, and no keystroke is lost or typed twice.
"""

from collections.abc import Mapping
from typing import Any

from runs.shell_frames import INPUT, pack

PIECE_BYTES = 32 * 1024  # of one frame of input
AHEAD_BYTES = 256 * 1024  # sent and not taken; the server closes on whoever sends 1 MiB
KEPT_BYTES = 4 << 20  # typed and not taken; what is typed beyond that is refused


class Desk:
    """One client. `role` is None while it is not connected; `next` the offset of the next output byte, if known."""

    def __init__(self, role: str = "pilot") -> None:
        self.wanted_role = role
        self.role: str | None = None
        self.next: int | None = None
        self.replay_end = 0  # output before this was there before we came
        self.had: int | None = None  # the generation of our last control connection
        self.taken = 0
        self._kept = bytearray()
        self._sent = 0
        self._is_new = True  # nothing has been said about a terminal yet

    @property
    def query(self) -> dict[str, str]:
        """What the next connection asks for."""
        asked = {"role": self.wanted_role}
        if self.next is not None:
            asked["from"] = str(self.next)
        if self.had is not None:
            asked["had"] = str(self.had)
        return asked

    @property
    def waits(self) -> int:
        """How many typed bytes have not gone in yet."""
        return len(self._kept)

    def type(self, data: bytes) -> bool:
        """Type. False: it has no effect, we are not in control (or far too much is waiting).

        What is typed before the terminal is there goes in first, if we are in control then.
        """
        may_come = self.had is not None or (self._is_new and self.wanted_role == "pilot")
        is_in_control = self.role == "pilot" or (self.role is None and may_come)
        if not is_in_control or len(self._kept) + len(data) > KEPT_BYTES:
            return False
        self._kept += data
        return True

    def to_send(self) -> bytes | None:
        """Give the next frame of input; None while there is none, or no room for it."""
        begin = self._sent - self.taken
        data = bytes(self._kept[begin : min(begin + PIECE_BYTES, AHEAD_BYTES)])
        if self.role != "pilot" or not data:
            return None
        frame = pack(INPUT, self._sent, data)
        self._sent += len(data)
        return frame

    def cut(self) -> None:
        """The connection is gone."""
        self.role = None

    def take(self, frame: Mapping[str, Any]) -> None:
        """Take what the server says."""
        kind = frame.get("type")
        if kind == "ready":
            self.role = str(frame["role"])
            self.replay_end = int(frame["end"])
            if self.role == "pilot":
                self._renumber(int(frame["taken"]), is_ours=bool(frame.get("continues")))
                self.had = frame["generation"]
            else:
                self._lose()
            self._is_new = False
        elif kind == "pilot" and frame.get("mine"):
            if "taken" in frame and frame["generation"] != self.had:
                self.role = self.wanted_role = "pilot"
                self._renumber(int(frame["taken"]), is_ours=False)
                self.had = frame["generation"]
        elif kind == "pilot" and self.role == "pilot":
            self.wanted_role = "viewer"  # a displaced window takes nothing back by itself
            self._lose()
        elif kind == "taken":
            self._acknowledge(int(frame["offset"]))
        elif kind == "input":
            if frame.get("problem") == "shut":
                self._kept.clear()
            self._sent = max(self.taken, min(int(frame["taken"]), self.taken + len(self._kept)))

    def _renumber(self, taken: int, *, is_ours: bool) -> None:
        """Begin to type at `taken`; what nobody took before goes first, if nobody else has typed since."""
        if is_ours and self.taken <= taken <= self.taken + len(self._kept):
            self._acknowledge(taken)
        elif not self._is_new:
            self._kept.clear()
        self.taken = self._sent = taken

    def _acknowledge(self, taken: int) -> None:
        if self.taken < taken <= self.taken + len(self._kept):
            del self._kept[: taken - self.taken]
            self.taken = taken
            self._sent = max(self._sent, taken)

    def _lose(self) -> None:
        self.role, self.had = "viewer", None
        self._kept.clear()
        self._sent = self.taken
