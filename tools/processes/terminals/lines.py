"""Command lines that an agent types, and where each begins and ends in the output, by the shell's marks. stdlib only.

The shell writes OSC 133 with a word that only it and this ward know (marks.py): B when its prompt is ready to be typed
at, C before a command begins, D with the exit code after it.

    starting --D--> ended --B--> ready --a line or keys go in--> typed --C--> running --D--> ended

A line goes in at a prompt only, and once: its id is kept. Keys that somebody has left at the prompt are cleared first.
"""

import re
from dataclasses import asdict, dataclass
from typing import Any

KEPT_LINES = 32
CLEAR = b"\x03"  # Ctrl-C: the shell forgets what was typed, and comes back with a prompt
_LONGEST_MARK = 128


@dataclass(slots=True)
class Line:
    """What was typed as one. offset: of the output when it went in; begin, end: of what the command printed.

    at: CLOCK_BOOTTIME; is_cut: not all of it went in, because somebody else began to type.
    """

    id: str
    offset: int
    at: float
    begin: int | None = None
    end: int | None = None
    code: int | None = None
    is_cut: bool = False


@dataclass(slots=True)
class _Wanted:
    id: str
    text: bytes
    until: float
    over: int


class Lines:
    """The lines of one terminal. `typing` is what is to go in now; who takes it calls `taken`."""

    def __init__(self, word: str | None) -> None:
        marks = rb"\x1b\]133;(B|C|D;(\d{1,3}));" + re.escape((word or "").encode()) + rb"\x07"
        self._mark = re.compile(marks) if word else None
        self._rest = b""
        self._known: dict[str, Line] = {}
        self._current: Line | None = None
        self._wanted: _Wanted | None = None  # goes in at the next prompt, which was asked for
        self._is_ahead = False  # somebody typed while a command ran: that may stand at the next prompt
        self.state = "starting"

    @property
    def is_marked(self) -> bool:
        """Say whether the program marks its output at all."""
        return self._mark is not None

    def tell(self, line_id: str | None = None) -> dict[str, Any]:
        """Say how things stand: {"state", "line"?: the asked one, or the newest}."""
        line = self._known.get(line_id) if line_id else next(reversed(self._known.values()), None)
        return {"state": self.state if self.is_marked else "unmarked", "line": None if line is None else asdict(line)}

    def want(self, body: dict[str, Any], *, pilot: int, offset: int, now: float) -> tuple[str, bytes]:
        """Take what an agent wants typed. Returns what became of it, and the bytes that go in now.

        body: id, until (CLOCK_BOOTTIME), over (the newest pilot that its sender knew of), and text, keys: true for text
        that needs no prompt, or interrupt: true for Ctrl-C to the line of that id.
        typed, soon (it goes in at the prompt that comes, if in time) | known, busy, taken, void: it never does.
        """
        wanted = _Wanted(str(body["id"]), str(body.get("text", "")).encode(), float(body["until"]), int(body["over"]))
        if pilot > wanted.over:
            return "taken", b""
        if now >= wanted.until:
            return "void", b""
        if body.get("interrupt"):
            is_there = self._current is not None and self._current.id == wanted.id
            return ("typed", CLEAR) if is_there else ("known", b"")
        if wanted.id in self._known:
            return "known", b""
        if self._wanted is not None and now >= self._wanted.until:
            self._wanted = None  # its prompt never came: bash may lose a Ctrl-C, so it is asked for again
        if body.get("keys"):
            self._note(Line(wanted.id, offset, now, begin=offset, end=offset))
            self.somebody_typed()
            return "typed", wanted.text
        if self.state == "ready":
            return "typed", self._begin(wanted, offset, now)
        if self.state in ("typed", "ended") and self._wanted is None and self._current is None:
            self._wanted = wanted
            return "soon", CLEAR if self.state == "typed" else b""
        return "busy", b""

    def somebody_typed(self) -> None:
        """Keys have gone in that are no line of an agent."""
        self._is_ahead = True
        if self.state == "ready":
            self.state = "typed"

    def somebody_came(self, *, is_cut: bool) -> None:
        """Somebody else types from now on. is_cut: not all that an agent has typed had gone in."""
        self._wanted = None
        if is_cut and self._current is not None and self._current.begin is None:
            self._current.is_cut = True

    def see(self, offset: int, data: bytes, *, pilot: int, now: float) -> tuple[bool, bytes]:
        """Read output that begins there. Returns whether anything has changed, and the bytes that go in now."""
        if self._mark is None:
            return False, b""
        text, base, end, typing = self._rest + data, offset - len(self._rest), 0, b""
        for mark in self._mark.finditer(text):
            end = mark.end()
            typing += self._pass(mark, base, pilot, now)
        rest = text[max(end, len(text) - _LONGEST_MARK) :]
        escape = rest.rfind(b"\x1b")
        self._rest = rest[escape:] if escape >= 0 else b""
        return end > 0, typing

    def _pass(self, mark: re.Match[bytes], base: int, pilot: int, now: float) -> bytes:
        kind, line = mark[1][:1], self._current
        if kind == b"C":
            self.state = "running"
            if line is not None and line.begin is None:
                line.begin = base + mark.end()
        elif kind == b"D":
            self.state = "ended"
            if line is not None:
                line.end, line.code = base + mark.start(), int(mark[2])
                self._current = None
        elif self.state == "ended":
            return self._come_to_prompt(base + mark.end(), pilot, now)
        return b""

    def _come_to_prompt(self, offset: int, pilot: int, now: float) -> bytes:
        is_ahead, self._is_ahead = self._is_ahead, False
        self.state = "typed" if is_ahead else "ready"
        wanted = self._wanted
        if wanted is not None and (pilot > wanted.over or now >= wanted.until):
            wanted = self._wanted = None
        if wanted is None or is_ahead:
            return CLEAR if wanted is not None else b""
        self._wanted = None
        return self._begin(wanted, offset, now)

    def _begin(self, wanted: _Wanted, offset: int, now: float) -> bytes:
        self.state = "typed"
        self._current = self._note(Line(wanted.id, offset, now))
        return wanted.text

    def _note(self, line: Line) -> Line:
        self._known[line.id] = line
        while len(self._known) > KEPT_LINES:
            del self._known[next(iter(self._known))]
        return line
