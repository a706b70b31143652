"""`outlive shell open|attach|list|end`: terminals at the server, in the terminal here."""

import asyncio
import sys
import uuid
from contextlib import closing
from typing import Any

from runs.cli.api import ApiClient
from runs.cli.output import open_output
from runs.cli.plain_text import safe_line
from runs.cli.problems import EXIT_CANCELLED, EXIT_FAILED, Refused, Unreachable
from runs.cli.queries import Sieve
from runs.cli.settings import Target
from runs.cli.shell_terminal import CLEAR, Keys, raw_terminal, size, write
from runs.reading.errors import StreamLost, StreamRefused
from runs.reading.shell_line import ShellFrame, ShellLine, ShellOutput

PAGE = 100
SIGNALLED = 128  # exit code of a program that a signal ended: this and the signal, as shells have it
HOW = "Ctrl-] d leaves it running, Ctrl-] t takes control, Ctrl-] b hands it back to its agent, Ctrl-] ] types Ctrl-]."


def open_shell(
    *, target: Target, as_json: bool, place: str | None, command: str | None, title: str | None, grace: float | None,
    deadline_seconds: float | None, is_recorded: bool, is_attaching: bool, key: str | None,
) -> int:  # fmt: skip
    """Open a shell, and attach to it."""
    body: dict[str, Any] = {"target": place, "command": command, "title": title, "deadline_s": deadline_seconds}
    body = {name: value for name, value in body.items() if value is not None}
    if is_recorded:
        body["record"] = True
    if grace is not None:
        body["on_disconnect"] = {"grace_s": grace}
    if sys.stdout.isatty():
        body["rows"], body["cols"] = size()
    key = key or f"cli-{uuid.uuid4().hex}"
    with closing(ApiClient(target)) as client:
        shell = client.call(
            "POST", "/shells", body=body, headers={"Idempotency-Key": key},
            lost=f"The shell may have been opened. The same command with --key {key} cannot open a second one.",
        ).body  # fmt: skip
    if as_json or not is_attaching:
        open_output(as_json=as_json).row(shell, shell["id"])
    return attach(target=target, as_json=as_json, shell_id=shell["id"], is_viewer=False) if is_attaching else 0


def list_shells(*, target: Target, as_json: bool, is_all: bool, limit: int) -> int:
    """List shells."""
    output = open_output(as_json=as_json)
    with closing(ApiClient(target)) as client:
        params = {"limit": str(min(limit, PAGE))} | ({} if is_all else {"open": "true"})
        for shell in client.call("GET", "/shells", params=params).body["data"]:
            output.row(shell, _line(shell))
    return 0


def end_shell(*, target: Target, as_json: bool, shell_id: str, note: str) -> int:
    """Ask for a shell's end."""
    with closing(ApiClient(target)) as client:
        shell = client.call("POST", f"/shells/{shell_id}/terminate", body={"note": note}).body
    open_output(as_json=as_json).row(shell, _line(shell))
    return 0


def change_hands(*, target: Target, as_json: bool, shell_id: str, what: str) -> int:
    """Take an agent's shell over, or hand it back: what is take_over or hand_back."""
    with closing(ApiClient(target)) as client:
        shell = client.call("POST", f"/shells/{shell_id}/{what}").body
    open_output(as_json=as_json).row(shell, _line(shell))
    return 0


def attach(*, target: Target, as_json: bool, shell_id: str, is_viewer: bool) -> int:
    """Attach this terminal to a shell. Returns its exit code, 0 after a detach."""
    try:
        return asyncio.run(Attachment(target, shell_id, is_viewer=is_viewer).run())
    except StreamRefused as error:
        raise Refused(
            403, "shell_closed", f"The server closed the connection for good: {error.reason}.", None
        ) from None
    except StreamLost as error:
        raise Unreachable(
            f"No contact for {error.seconds:.0f} s. The shell goes on as its policy says: {_way_back(shell_id)}"
        ) from None


class Attachment:
    """One attached terminal."""

    def __init__(self, target: Target, shell_id: str, *, is_viewer: bool) -> None:
        self._shell_id = shell_id
        role = "viewer" if is_viewer else "pilot"
        self._line = ShellLine(target.base_url, target.token, shell_id, role=role, on_cut=self._tell_cut)
        self._sieve, self._keys = Sieve(), Keys(self._do)
        self._exit: dict[str, Any] | None = None
        self._pilot: tuple[Any, Any] | None = None
        self._whose: dict[str, Any] = {}  # the last `run` frame
        self._watching: set[str] = set()  # others
        self._leaving = asyncio.Event()

    async def run(self) -> int:
        """Stay until the shell ends or the person leaves."""
        with raw_terminal(self._typed, lambda: self._line.resize(*size())):
            self._note(f"{self._shell_id}. {HOW}")
            self._line.resize(*size())
            leaving = asyncio.ensure_future(self._leaving.wait())
            showing = asyncio.ensure_future(self._show())
            await asyncio.wait([leaving, showing], return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not showing.done():
                showing.cancel()
                await asyncio.gather(showing, return_exceptions=True)
        if not showing.cancelled():
            showing.result()
        return self._end()

    async def _show(self) -> None:
        async with self._line as line:
            async for item in line:
                if isinstance(item, ShellOutput):
                    self._paint(item)
                else:
                    self._tell(item)

    def _paint(self, item: ShellOutput) -> None:
        if item.is_screen:
            write(CLEAR + self._sieve.take_out(item.data) + self._sieve.rest())
        elif item.is_replay or self._line.desk.role != "pilot":
            write(self._sieve.take_out(item.data))
        else:
            write(self._sieve.rest() + item.data)

    def _tell(self, frame: ShellFrame) -> None:
        data = frame.data
        self._whose = data if frame.type == "run" else self._whose
        if frame.type == "exit":
            self._exit = data
            self._leaving.set()  # whether or not somebody has stored the run's end yet
        elif frame.type == "watching":
            self._tell_watching({str(one.get("name")) for one in data.get("people") or [] if not one.get("mine")})
        elif frame.type == "skipped":
            self._note(f"{data['to'] - data['from']} bytes of output skipped.")
        elif frame.type == "screen" and not data.get("exact"):
            self._note("This screen may not be exact.")
        elif frame.type == "run" and data.get("grace_expires_at"):
            self._note(f"Nobody is in control. The shell ends at {data['grace_expires_at']} unless somebody is.")
        elif frame.type == "input" and data.get("problem") == "shut":
            self._note("A stop is recorded: nothing that you type goes in any more.")
        elif frame.type == "pilot" and self._pilot != (pilot := (data.get("name"), bool(data.get("mine")))):
            if not pilot[1]:
                name = pilot[0] or self._whose.get("held_by")
                who = (
                    safe_line(str(name))
                    if name
                    else "Nobody"
                    if self._whose.get("opened_by") != "agent"
                    else "An agent"
                )
                self._note(f"{who} is in control, you are watching. Ctrl-] t takes control.")
            elif self._whose.get("opened_by") == "agent":
                self._note("You are in control. The agent waits until you hand it back: Ctrl-] b.")
            elif self._pilot is not None:
                self._note("You are in control.")
            self._pilot = pilot

    def _tell_watching(self, names: set[str]) -> None:
        """Say who has come to watch, and who does so no more; the first frame tells who was there."""
        came, went = sorted(names - self._watching), sorted(self._watching - names)
        self._watching = names
        for who, what in ((came, "watching"), (went, "watching no more")):
            if who:
                self._note(f"{safe_line(', '.join(who), 100)}: {what}.")

    def _tell_cut(self, reason: str, wait_seconds: float) -> None:
        self._note(f"Connection lost ({safe_line(reason, 100)}). Next try in {wait_seconds:.0f} s; the shell goes on.")

    def _note(self, text: str) -> None:
        write(f"\r\n\x1b[7m outlive: {text} \x1b[0m\r\n".encode())

    def _typed(self, data: bytes) -> None:
        if not data:
            self._leaving.set()
        elif typed := self._keys.typed(data):
            self._line.type(typed)

    def _do(self, letter: str) -> None:
        if letter == "d":
            self._leaving.set()
        elif letter == "t":
            self._line.take_control()
        elif letter == "b":
            self._line.hand_back()

    def _end(self) -> int:
        if self._exit is None:
            print(f"Detached; {self._shell_id} goes on. {_way_back(self._shell_id)}", file=sys.stderr)  # noqa: T201
            return 0
        code, number, why = self._exit.get("code"), self._exit.get("signal"), safe_line(str(self._exit.get("why")))
        what = f"exit {code}" if code is not None else f"signal {number}" if number else "no exit status"
        print(f"{self._shell_id} ended: {what} ({why}).", file=sys.stderr)  # noqa: T201
        if isinstance(code, int):
            return code
        return SIGNALLED + number if isinstance(number, int) else EXIT_FAILED if why == "failed" else EXIT_CANCELLED


def _way_back(shell_id: str) -> str:
    return f"outlive shell attach {shell_id}"


def _line(shell: dict[str, Any]) -> str:
    code, number = shell.get("exit_code"), shell.get("signal")
    ended = f"exit {code}" if code is not None else f"signal {number}" if number else ""
    parts = [shell["id"], shell["status"], shell["target"], shell["created_by"], shell["command"] or "-", ended]
    if name := shell.get("held_by"):
        parts.append(f"taken over by {name}")
    if name := shell.get("in_control"):
        parts.append(f"{name} in control")
    if watching := shell.get("watching"):
        parts.append(f"{len(watching)} watching")
    return "  ".join(safe_line(str(part)) for part in parts if part)
