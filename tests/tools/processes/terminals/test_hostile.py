"""Nonsense from those who ask and attach ends their connection or their request, never the host or the terminal."""

import asyncio
import contextlib
import os
import signal
import socket

import pytest

from tests.tools.processes.terminals.conftest import KEY, Terminals
from tools.processes.results import CommandNotStarted
from tools.processes.terminals import frames
from tools.processes.terminals.host import HOST_SOCKET, socket_of

DEEP = b"[" * 100_000


def ask(terminals: Terminals, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.settimeout(30)
        asking.connect(str(terminals.folder / HOST_SOCKET))
        asking.send(request)
        return asking.recv(65536)


@pytest.mark.parametrize("request_", [b"{", b"[]", b"{}", b'{"key": 5}', b"\xff", DEEP])
async def test_a_bad_request_is_refused_and_the_host_goes_on(terminals: Terminals, request_: bytes) -> None:
    assert b"The request is" in ask(terminals, request_)
    assert await terminals.start() > 0


async def test_a_request_of_too_many_bytes_is_not_cut_in_two(terminals: Terminals) -> None:
    with pytest.raises(CommandNotStarted, match="over 196608 bytes"):
        await terminals.start(env={"X": "x" * 200_000})
    assert await terminals.start(env={"X": "x" * 100_000}) > 0


@pytest.mark.parametrize("hello", [b"{", DEEP, b'{"role": 5}', b'{"role": "pilot", "generation": "9"}'])
async def test_a_bad_greeting_ends_its_connection_alone(terminals: Terminals, hello: bytes) -> None:
    await terminals.start()
    async with terminals.seat("pilot", generation=1) as pilot:
        reader, writer = await asyncio.open_unix_connection(socket_of(str(terminals.folder), KEY))
        writer.write(frames.pack(frames.HELLO, hello))
        async with asyncio.timeout(30):
            await reader.read()
        writer.close()
        pilot.type("echo on''e\r")
        await pilot.sees("one\r\n")


@pytest.mark.parametrize("command", [{"until": float("inf")}, {"until": 1e300}, {"until": float("nan")}])
async def test_an_end_of_the_lease_that_no_clock_knows_is_not_taken(
    terminals: Terminals, command: dict[str, float]
) -> None:
    await terminals.start()
    async with terminals.seat("owner", fence=1) as owner, terminals.seat("pilot", generation=1) as pilot:
        owner.terminal.command(**command)
        pilot.type("echo on''e\r")
        await owner.sees("one\r\n")


async def test_a_grace_without_end_is_a_grace(terminals: Terminals) -> None:
    await terminals.start("sh", "-c", "trap '' HUP TERM; echo re''ady; sleep 1000 & wait; wait")
    async with terminals.seat("owner", fence=1) as owner:
        await owner.sees("ready")
        owner.terminal.command(stop=float("inf"))
        owner.terminal.command(stop=0.0)
        gone = await owner.news_of("gone")
        assert not gone["by_itself"]
        owner.terminal.command(stored=True)


async def test_a_frozen_ward_keeps_its_terminal_and_does_not_hold_up_the_host(terminals: Terminals) -> None:
    await terminals.start()
    (ward,) = terminals.wards()
    os.kill(ward.pid, signal.SIGSTOP)
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(BlockingIOError):
                while True:  # until its queue is full
                    one = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                    one.setblocking(False)
                    one.connect(socket_of(str(terminals.folder), KEY))
            with pytest.raises(CommandNotStarted, match="of this key is running"):
                await terminals.start()
            assert await terminals.start(key="another") > 0
    finally:
        os.kill(ward.pid, signal.SIGCONT)
    async with terminals.seat("pilot", generation=1) as pilot:
        pilot.type("echo on''e\r")
        await pilot.sees("one\r\n")
