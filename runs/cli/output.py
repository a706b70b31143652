"""Where lines go: JSON lines for programs, plain lines for files and pipes, a moving last line on a terminal."""

import json
import sys
from typing import Any, Protocol, TextIO

from runs.cli.plain_text import safe, safe_line
from runs.cli.telling import WORDS, Teller

type Frame = dict[str, Any]


class Output(Protocol):
    """What a command writes to."""

    def row(self, body: dict[str, Any], line: str) -> None:
        """Write one thing: its JSON, or its line."""

    def frame(self, frame: Frame) -> None:
        """Write one frame of a run that is being followed."""

    def note(self, line: str) -> None:
        """Say something that is no result (stderr)."""

    def close(self) -> None:
        """Give the terminal back."""


class JsonLines:
    """One JSON object a line on stdout; notes on stderr."""

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self.out, self.err = out, err

    def row(self, body: dict[str, Any], line: str) -> None:
        """Write the JSON; ASCII, so that no control character reaches a terminal."""
        self.out.write(json.dumps(body, ensure_ascii=True, separators=(",", ":")) + "\n")
        self.out.flush()

    def frame(self, frame: Frame) -> None:
        """Write the frame as it came."""
        self.row(frame, "")

    def note(self, line: str) -> None:
        """Write to stderr."""
        print(line, file=self.err, flush=True)

    def close(self) -> None:
        """Nothing to give back."""


class PlainLines:
    """Lines of text."""

    def __init__(self, out: TextIO, err: TextIO, teller: Teller) -> None:
        self.out, self.err, self.teller = out, err, teller

    def row(self, body: dict[str, Any], line: str) -> None:
        """Write the line."""
        self.write(line)

    def frame(self, frame: Frame) -> None:
        """Write the lines that the frame is worth."""
        for line in self.teller.tell(frame):
            self.write(line)

    def write(self, line: str) -> None:
        """Write one line to stdout, at once. Ids and times are the server's words too: nothing drives the screen."""
        print(safe(line), file=self.out, flush=True)

    def note(self, line: str) -> None:
        """Write to stderr."""
        print(safe(line), file=self.err, flush=True)

    def close(self) -> None:
        """Nothing to give back."""


def open_output(*, as_json: bool, run_id: str = "", is_following: bool = False) -> Output:
    """Choose the output for this command and this terminal."""
    _replace_what_the_terminal_cannot_show()
    if as_json:
        return JsonLines(sys.stdout, sys.stderr)
    teller = Teller(run_id)
    if is_following and sys.stdout.isatty():
        # Only here: rich takes 0.2 s to import, and no pipe or script needs it.
        from runs.cli.live import LiveLines

        return LiveLines(sys.stdout, sys.stderr, teller)
    return PlainLines(sys.stdout, sys.stderr, teller)


def run_line(run: dict[str, Any]) -> str:
    """Write a run on one line."""
    status = WORDS.get(str(run["status"]), str(run["status"]))
    title = safe_line(str(run["title"]), 60)
    return f"{run['id']}  {status:<14}  {safe_line(str(run['agent']), 20):<12}  {run['created_at'][:19]}Z  {title}"


def child_lines(run: dict[str, Any]) -> list[str]:
    """Write the run that began this one, and the runs that it has begun."""
    lines = [f"  part of {run['parent_id']}"] if run["parent_id"] else []
    for child in run["children"]:
        status = WORDS.get(str(child["status"]), str(child["status"]))
        lines.append(f"  began {child['id']}  {status:<14}  {safe_line(str(child['agent']), 20)}")
    return lines


def _replace_what_the_terminal_cannot_show() -> None:
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")  # a C locale must not end the command at the first "…"
