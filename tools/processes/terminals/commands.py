"""One command line at a terminal, as its agent follows it: what became of it, what it printed, how it ended."""

import asyncio
import re
from dataclasses import dataclass, field
from typing import Any

from tools.processes.terminals.link import News, Output, Skipped, Terminal

HEAD_BYTES = TAIL_BYTES = 16 * 1024
FROM_NOW = 1 << 62  # of output: beyond its end

_SEQUENCES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOVES = re.compile(r"[\r\b]")


@dataclass(slots=True)
class Kept:
    """The beginning and the end of bytes that may be any number; `left_out` counts those in between."""

    head: bytearray = field(default_factory=bytearray)
    tail: bytearray = field(default_factory=bytearray)
    left_out: int = 0

    def add(self, data: bytes) -> None:
        """Keep what comes next."""
        if not self.left_out and not self.tail:
            room = HEAD_BYTES - len(self.head)
            self.head += data[:room]
            data = data[room:]
        self.tail += data
        if (excess := len(self.tail) - TAIL_BYTES) > 0:
            self.left_out += excess
            del self.tail[:excess]

    def skip(self, count: int) -> None:
        """So many bytes are kept by nobody any more."""
        self.left_out += count + len(self.tail)
        self.tail.clear()

    def text(self) -> str:
        """Return it as plain text, with a line that says how much is left out."""
        if not self.left_out:
            return plain_text(bytes(self.head + self.tail))
        return f"{plain_text(bytes(self.head))}\n[{self.left_out} bytes left out]\n{plain_text(bytes(self.tail))}"


def plain_text(data: bytes) -> str:
    """Return what a terminal would show of it, line by line, without control sequences."""
    text = _SEQUENCES.sub("", data.decode("utf-8", "replace")).replace("\r\n", "\n")
    lines = (_overwritten(line) if _MOVES.search(line) else line for line in text.split("\n"))
    return _CONTROLS.sub("", "\n".join(lines))


def _overwritten(line: str) -> str:
    shown: list[str] = []
    at = 0
    for character in line:
        if character == "\r":
            at = 0
        elif character == "\b":
            at = max(0, at - 1)
        else:
            shown[at : at + 1] = character
            at += 1
    return "".join(shown)


class Command:
    """The line of one id at an attached terminal; `take` everything that comes from it.

    answer: what became of the wish to have it typed; line: as the ward tells it, None until it has gone in; proof: of
    the terminal's end; is_cut_off: the connection has ended.
    """

    def __init__(self, terminal: Terminal, line_id: str) -> None:
        self._terminal, self._id = terminal, line_id
        self._next: int = terminal.welcome["from"]
        self.kept = Kept()
        self.answer: str | None = None
        self.state = "unmarked"
        self.line: dict[str, Any] | None = None
        self.proof: dict[str, Any] | None = None
        self.is_cut_off = False
        self._learn(terminal.welcome.get("lines") or {})

    @property
    def is_done(self) -> bool:
        """It has ended, and all that it printed is here."""
        return self.line is not None and self.line["end"] is not None and self._next >= self.line["end"]

    async def read(self, seconds: float) -> bool:
        """Take the next thing that is said. False: nothing was, within that time or for ever."""
        try:
            async with asyncio.timeout(seconds):
                item = await anext(self._terminal)
        except TimeoutError:
            return False
        except StopAsyncIteration:
            self.is_cut_off = True
            return False
        if isinstance(item, Output):
            self._keep(item.offset, item.data)
        elif isinstance(item, Skipped):
            self._miss(item.begin, item.end)
        elif isinstance(item, News):
            self._hear(item.data)
        return True

    def _hear(self, news: dict[str, Any]) -> None:
        if "gone" in news:
            self.proof = news
        if "lines" in news:
            self.answer = news.get("answer", self.answer)
            self._learn(news["lines"])

    def _learn(self, lines: dict[str, Any]) -> None:
        self.state = lines.get("state", self.state)
        line, known = lines.get("line"), self.line
        if line is None or line["id"] != self._id:
            return
        if known is None or known["begin"] != line["begin"]:  # what came before is the echo of the line
            self.kept = Kept()
        self.line = line

    def _begin(self) -> int:
        assert self.line is not None
        begin: int = self.line["offset"] if self.line["begin"] is None else self.line["begin"]
        return begin

    def _keep(self, offset: int, data: bytes) -> None:
        self._next = offset + len(data)
        if self.line is not None:
            end = self.line["end"]
            self.kept.add(data[max(0, self._begin() - offset) : None if end is None else max(0, end - offset)])

    def _miss(self, begin: int, end: int) -> None:
        self._next = end
        if self.line is not None:
            last = end if self.line["end"] is None else min(end, self.line["end"])
            self.kept.skip(max(0, last - max(begin, self._begin())))
