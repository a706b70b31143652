"""Run the demo target as a process of its own.

    python -m tools.target --port 8092 --smtp-port 8025 --state FILE [--die-with-parent]

Loopback only. Prints one JSON line when both ports answer: {"ready": true, "url", "smtp_port", "pid"}; port 0 takes
a free one. SIGTERM or SIGINT ends it with exit code 0 and keeps the effects in FILE. A port that is taken or a
damaged FILE is one line on stderr and exit code 2.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from tools.models.own_process import CannotStart, die_with_parent
from tools.target.ledger import Ledger
from tools.target.mail import MailHandler, serve_mail
from tools.target.routes import Routes
from tools.target.server import serve_http
from tools.target.switches import SwitchBoard

HOST = "127.0.0.1"


@asynccontextmanager
async def open_target(*, port: int, smtp_port: int, state: Path) -> AsyncIterator[tuple[str, int]]:
    """Listen, and yield the URL and the SMTP port; in the end close the sockets and the file. Raises CannotStart."""
    try:
        ledger = Ledger(state)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CannotStart(f"The state file {state} cannot be used: {error}") from error
    board = SwitchBoard()
    async with AsyncExitStack() as stack:
        stack.callback(ledger.close)
        http = await _listen(port, serve_http(Routes(ledger, board).handle, host=HOST, port=port))
        stack.callback(http.close)
        smtp = await _listen(smtp_port, serve_mail(MailHandler(ledger, board), host=HOST, port=smtp_port))
        stack.callback(smtp.close)
        yield f"http://{HOST}:{http.sockets[0].getsockname()[1]}", smtp.sockets[0].getsockname()[1]


async def run(*, port: int, smtp_port: int, state: Path) -> None:
    """Serve until SIGTERM or SIGINT. Raises CannotStart."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_target(port=port, smtp_port=smtp_port, state=state) as (url, taken_smtp_port):
        sys.stdout.write(
            json.dumps({"ready": True, "url": url, "smtp_port": taken_smtp_port, "pid": os.getpid()}) + "\n"
        )
        sys.stdout.flush()
        await stop.wait()


async def _listen(port: int, starting: Awaitable[asyncio.Server]) -> asyncio.Server:
    try:
        return await starting
    except OSError as error:
        raise CannotStart(f"Port {port} on {HOST} is taken or not allowed: {error.strerror}.") from error


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.target", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--smtp-port", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True, help="append-only file that keeps the effects")
    parser.add_argument("--die-with-parent", action="store_true", help="end when the starting process ends")
    options = parser.parse_args(arguments)
    try:
        if options.die_with_parent:
            die_with_parent()
        asyncio.run(run(port=options.port, smtp_port=options.smtp_port, state=options.state))
    except CannotStart as error:
        sys.stderr.write(f"target: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
