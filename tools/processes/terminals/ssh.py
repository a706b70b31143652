"""The program in the terminal of a shell on another machine: it carries bytes, sizes and the end, and proves the end.

    python -I ssh.py SPEC      SPEC: a file (read once, then removed) with what `Place` says, as JSON

It runs below a ward like any program, so ring, screen, pilot and adoption are those of local shells. What the remote
shell starts bears a mark in its environment. At the end, however it came, a second channel (or a second connection)
ends what bears the mark or hangs on what does (sweep.sh), and looks what is left. The verdict goes into a file:

    {"gone": true}                        nothing of it is left, or nothing was started
    {"gone": false, "error": sentence}    something is left, or nobody could look
    with "error" and "code" too where the shell could not be opened, or its connection was lost

Without a file nothing is proven. Needs nothing of Outlive, so that its interpreter sees no more than asyncssh.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shlex
import signal
import struct
import sys
import termios
import tty
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # First of all, and without flushing: what is typed before this is echoed here, what is flushed is lost.
    tty.setraw(0, termios.TCSANOW)

import asyncssh

CONNECT_SECONDS = 15.0
KEEPALIVE_SECONDS, KEEPALIVE_MISSES = 10.0, 3
LOOK_SECONDS = 5.0  # beyond the wait between TERM and KILL
READ_BYTES = 65536
NO_SHELL = 255  # exit status, as ssh(1) has it
MARK = "OUTLIVE_SHELL"
SWEEP = Path(__file__).with_name("sweep.sh").read_text()


@dataclass(frozen=True)
class Place:
    """Where, as whom, what, and how it is ended. verdict: the path of the file that it is told in."""

    host: str
    port: int
    username: str
    host_key: str
    key_file: str
    agent_path: str
    command: str
    mark: str
    term_seconds: float
    verdict: str


@dataclass(frozen=True)
class Ending:
    """How the program ends: with a status, or by a signal; and the verdict."""

    status: int
    is_gone: bool
    error: str = ""
    code: str = ""
    signal: int = 0


class NotOpened(Exception):
    """Nothing was started there. The text is for the person at the terminal."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


async def connect(place: Place) -> asyncssh.SSHClientConnection:
    """Connect to the one machine that has this host key, with this key. Raises: NotOpened."""
    where = f"{place.username}@{place.host}"
    keys: Any = [place.key_file] if place.key_file else ()
    if not (keys or place.agent_path):  # or the library would try those of a home folder
        raise NotOpened("This target names neither a key file nor an agent that runs. An admin adds one.", "ssh_no_key")
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncssh.connect(
                place.host, place.port, username=place.username, config=None,
                known_hosts=([asyncssh.import_public_key(place.host_key)], [], []),
                client_keys=keys, agent_path=place.agent_path or None, preferred_auth="publickey",
                keepalive_interval=KEEPALIVE_SECONDS, keepalive_count_max=KEEPALIVE_MISSES,
            )  # fmt: skip
    except (asyncssh.HostKeyNotVerifiable, asyncssh.KeyExchangeFailed) as error:
        text = (
            f"{place.host} did not show the host key that this target names. It may have been set up anew, or somebody "
            "stands in between. Nothing was sent. An admin compares the keys and changes the target."
        )
        raise NotOpened(text, "ssh_host_key") from error
    except asyncssh.PermissionDenied as error:
        raise NotOpened(f"{where} does not accept the key of this target.", "ssh_key_refused") from error
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        text = "A key of this target cannot be read: it has another form, or a passphrase (then use an agent)."
        raise NotOpened(text, "ssh_key_unreadable") from error
    except FileNotFoundError as error:
        raise NotOpened("The key file of this target is not on this machine.", "ssh_key_unreadable") from error
    except TimeoutError as error:
        raise NotOpened(f"{place.host} did not answer within {CONNECT_SECONDS:.0f} s.", "ssh_unreachable") from error
    except (OSError, asyncssh.Error) as error:
        raise NotOpened(f"{place.host} cannot be reached: {error}", "ssh_unreachable") from error


async def sweep(connection: asyncssh.SSHClientConnection, place: Place) -> str:
    """End what bears the mark. Returns what is wrong: "" when nothing is left."""
    argv = shlex.join(["sh", "-s", f"{MARK}={place.mark}", str(round(place.term_seconds * 100))])
    try:
        async with asyncio.timeout(place.term_seconds + LOOK_SECONDS):
            done = await connection.run(argv, input=SWEEP)
    except (OSError, asyncssh.Error, TimeoutError) as error:
        return f"nobody could look at {place.host} what is left ({error or 'no answer'})"
    said = str(done.stdout or "").split()
    if said == ["gone"]:
        return ""
    if said[:1] == ["left"]:
        return f"on {place.host} these processes could not be ended: {', '.join(said[1:])}"
    return f"{place.host} does not let us look what is left"


async def judge(connection: asyncssh.SSHClientConnection, place: Place, ending: Ending) -> Ending:
    """Add the verdict to an ending; over a second connection where the first one is lost."""
    wrong = await sweep(connection, place)
    if wrong:
        try:
            async with await connect(place) as second:
                wrong = await sweep(second, place)
        except NotOpened as error:
            wrong = f"nobody could look at {place.host} what is left ({error})"
    if not wrong:
        return Ending(ending.status, True, ending.error, ending.code, ending.signal)
    said = f"{ending.error} " if ending.error else ""
    return Ending(
        ending.status, False, f"{said}The end of the shell is not proven: {wrong}.", ending.code, ending.signal
    )


async def hold(place: Place, stop: asyncio.Event) -> Ending:
    """Open the shell and stay until its end, or a stop."""
    try:
        connection = await unless(stop, connect(place))
    except NotOpened as error:
        say(str(error))
        return Ending(NO_SHELL, True, str(error), error.code)
    if connection is None:
        return Ending(NO_SHELL, True)
    try:
        return await converse(connection, place, stop)
    finally:
        connection.close()


async def converse(connection: asyncssh.SSHClientConnection, place: Place, stop: asyncio.Event) -> Ending:
    """Open the shell over a connection and stay until its end."""
    try:
        # Most servers take no variables of ours, so the mark is set by the command itself.
        started = shlex.join(["env", f"{MARK}={place.mark}"])
        what = shlex.join(["sh", "-c", place.command]) if place.command else '"$SHELL" -l'
        process = await connection.create_process(
            f"exec {started} {what}", encoding=None, term_type=os.environ.get("TERM", "xterm-256color"),
            term_size=(*own_size(), 0, 0),
        )  # fmt: skip
    except (OSError, asyncssh.Error) as error:
        text = f"{place.host} opened no shell: {error}"
        say(text)
        return await judge(connection, place, Ending(NO_SHELL, False, text, "ssh_refused"))
    asyncio.get_running_loop().add_signal_handler(signal.SIGWINCH, lambda: process.change_terminal_size(*own_size()))
    await unless(stop, carry(process))
    if stop.is_set():
        ending = Ending(NO_SHELL, False)
    elif process.exit_status is None:
        text = f"The connection to {place.host} was lost."
        say(text)
        ending = Ending(NO_SHELL, False, text, "ssh_connection_lost")
    else:
        name = process.exit_signal[0] if process.exit_signal else ""
        number = getattr(signal, f"SIG{name}", 0)
        ending = Ending(NO_SHELL if name else process.exit_status, False, signal=int(number))
    return await judge(connection, place, ending)


async def unless[T](stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Do some work; None when a stop comes first."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        stopping.cancel()
        doing.cancel()
        await asyncio.wait([doing, stopping])


async def carry(process: asyncssh.SSHClientProcess[bytes]) -> None:
    """Carry bytes in both directions until the shell's end, each no faster than the other side takes it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=READ_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(os.dup(0), "rb", 0))
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, os.fdopen(os.dup(1), "wb", 0))
    writer = asyncio.StreamWriter(transport, protocol, None, loop)

    async def type_in() -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await reader.read(READ_BYTES):
                process.stdin.write(data)
                await process.stdin.drain()

    typing = asyncio.ensure_future(type_in())
    try:
        with contextlib.suppress(OSError, asyncssh.Error):
            while data := await process.stdout.read(READ_BYTES):
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(asyncssh.Error):
            await process.wait_closed()
    finally:
        typing.cancel()
        await asyncio.wait([typing])


def own_size() -> tuple[int, int]:
    """Return the columns and rows of our terminal."""
    rows, cols, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    return cols or 80, rows or 24


def say(text: str) -> None:
    """Tell the person at the terminal."""
    with contextlib.suppress(OSError):
        os.write(1, f"\r\n{text}\r\n".encode())


async def run(place: Place) -> Ending:
    """Hold the shell; HUP and TERM are the stop."""
    stop = asyncio.Event()
    for number in (signal.SIGHUP, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return await hold(place, stop)


def main(spec: str) -> int:
    """Returns the exit status; a signal of the remote shell becomes our own end."""
    path = Path(spec)
    place = Place(**json.loads(path.read_text()))
    path.unlink()
    ending = asyncio.run(run(place))
    verdict = {"gone": ending.is_gone, "error": ending.error, "code": ending.code}
    draft = f"{place.verdict}.{os.getpid()}"
    Path(draft).write_text(json.dumps(verdict))
    os.replace(draft, place.verdict)
    if ending.signal:
        with contextlib.suppress(OSError):  # KILL has no other meaning
            signal.signal(ending.signal, signal.SIG_DFL)
        os.kill(os.getpid(), ending.signal)
    return ending.status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
