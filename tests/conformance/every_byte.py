"""Cut a connection at every byte of a recorded stream: the client comes back, and nothing is missing or doubled.

`python -m tests.conformance.every_byte --base URL`, with the token in OUTLIVE_TOKEN; `--step 37` for each 37th byte.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from runs.reading import machine
from streaming.client.line import Transport
from tests.conformance.proxy import Fault, Proxy, faulty_proxy
from tests.conformance.readers import Name, Wanted, open_reader
from tests.conformance.site import Server

TEXT = "a\u2028b \U0001f468\u200d\U0001f469\u200d\U0001f467 \u4f60\u597d \\u0000 end"  # escapes may be cut too
AT_ONCE = 4


@contextmanager
def at_once() -> Iterator[None]:
    """Let Python clients come back without any wait."""
    before = machine.SHORTEST_WAIT_SECONDS, machine.LONGEST_WAIT_SECONDS
    machine.SHORTEST_WAIT_SECONDS = machine.LONGEST_WAIT_SECONDS = 0.0
    try:
        yield
    finally:
        machine.SHORTEST_WAIT_SECONDS, machine.LONGEST_WAIT_SECONDS = before


def cut_everywhere(server: Server, reader: Name, transport: Transport, *, step: int) -> tuple[int, list[str]]:
    """Read an ended run once for each place of a cut. Returns how many places there were, and what went wrong."""
    run_id = server.start("probe", text=TEXT)
    server.until(run_id)
    stored = server.stored(run_id)
    with faulty_proxy(server.base) as proxy:
        _read(server, proxy, run_id, reader, transport)
        length = max(proxy.passed)  # the first connection may have been one that came to nothing
    offsets = range(0, length + 1, step)

    def cut_some(begin: int) -> list[str]:
        with faulty_proxy(server.base) as proxy:
            return [
                f"{reader} over {transport}, cut at byte {at} of {length}: {problem}"
                for at in offsets[begin::AT_ONCE]
                if (problem := _cut(server, proxy, run_id, reader, transport, at, stored))
            ]

    with at_once(), ThreadPoolExecutor(AT_ONCE) as threads:
        problems = [problem for some in threads.map(cut_some, range(AT_ONCE)) for problem in some]
    return len(offsets), problems


def _cut(
    server: Server, proxy: Proxy, run_id: str, reader: Name, transport: Transport, at: int, stored: list[Any]
) -> str | None:
    before = proxy.connections
    proxy.faults = [Fault("cut", at)]
    try:
        frames = _read(server, proxy, run_id, reader, transport)
    except AssertionError as error:
        return str(error)
    if frames != stored:
        return f"{[frame.get('seq') for frame in frames]} in place of {len(stored)} events"
    return None if proxy.connections > before else "no connection was made"


def _read(server: Server, proxy: Proxy, run_id: str, reader: Name, transport: Transport) -> list[Any]:
    reading = open_reader(reader, transport, Wanted(proxy.base, server.token, run_id))
    outcome = reading.until_end()
    assert outcome == "ended", outcome
    return reading.frames


def main() -> int:
    """Cut, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.every_byte", description=__doc__)
    parser.add_argument("--base", required=True, help="the server's address, plain http")
    parser.add_argument("--only", default="", help="a client or a transport: sync, async, websocket, sse, pages")
    parser.add_argument("--step", type=int, default=1, help="cut at each so many bytes")
    chosen = parser.parse_args()
    is_good = True
    with closing(Server(chosen.base, os.environ["OUTLIVE_TOKEN"])) as server:
        clients: list[tuple[Name, Transport]] = [
            (name, transport)
            for name in ("sync", "async")
            for transport in ("websocket", "sse", "pages")
            if chosen.only in ("", name, transport)
        ]
        for name, transport in clients:
            places, problems = cut_everywhere(server, name, transport, step=chosen.step)
            print(f"{name} over {transport}: cut at {places} places, {len(problems)} wrong", flush=True)
            print(*problems, sep="\n", end="\n" if problems else "")
            is_good = is_good and not problems
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
