"""The client that outlives its sockets, against a real shell, through a proxy that cuts it."""

import asyncio
import hashlib
import re
from collections.abc import Callable
from typing import Any

import pytest

from runs.access import Actor
from runs.models import Shell
from runs.reading.errors import StreamRefused
from runs.reading.shell_line import ShellFrame, ShellLine, ShellOutput
from tests.builders import an_agents_shell
from tests.conformance.proxy import Fault, faulty_proxy
from tests.streaming.conftest import token_of
from tests.streaming.shells.conftest import SCOPES, SECONDS, Place, key_of
from tests.streaming.shells.test_session import LINE

pytestmark = pytest.mark.django_db(transaction=True)


class Shown:
    """What a client was given."""

    def __init__(self) -> None:
        self.output = bytearray()
        self.frames: list[dict[str, Any]] = []

    def kinds(self) -> list[str]:
        return [frame["type"] for frame in self.frames]


def played(
    base: str, token: str, shell: Shell, play: Callable[[ShellLine, Shown], Any], is_done: Callable[[Shown], bool]
) -> Shown:
    """Let a client play until it has seen something: `play` is asked at each item."""

    async def run() -> Shown:
        shown = Shown()
        async with ShellLine(base, token, key_of(shell)) as line, asyncio.timeout(SECONDS):
            async for item in line:
                if isinstance(item, ShellOutput):
                    shown.output += item.data
                else:
                    assert isinstance(item, ShellFrame)
                    shown.frames.append(item.data)
                play(line, shown)
                if is_done(shown):
                    break
        return shown

    return asyncio.run(run())


def once(shown: Shown, name: str, fact: bool) -> bool:
    """Say whether a fact is true for the first time."""
    known = shown.__dict__.setdefault("known", set())
    if not fact or name in known:
        return False
    known.add(name)
    return True


def test_b45_b46_cuts_lose_and_double_neither_output_nor_a_paste(place: Place, owner: Actor) -> None:
    paste = LINE * 1600
    expected = hashlib.sha256(paste).hexdigest().encode()
    shell, token = place.opened(owner), token_of(owner, SCOPES)

    def play(line: ShellLine, shown: Shown) -> None:
        if once(shown, "begin", "ready" in shown.kinds()):
            line.type(
                b"stty -echo; for i in $(seq 1 4000); do echo L$i; done; echo REA''DY; head -c 102400 | sha256sum\r"
            )
        if once(shown, "paste", b"READY" in shown.output):
            line.type(paste)

    with faulty_proxy(place.site.base) as proxy:
        proxy.faults += [
            Fault("cut", 3000),
            Fault("cut", 9000),
            Fault("cut", 25_500),
            Fault("drop"),
            Fault("cut", 1500),
        ]
        shown = played(proxy.base, token, shell, play, lambda shown: expected in shown.output)
        assert proxy.connections >= 5
    assert re.findall(rb"L(\d+)\r\n", bytes(shown.output)) == [b"%d" % n for n in range(1, 4001)]


def test_the_end_of_the_shell_is_the_end_of_the_line(place: Place, owner: Actor) -> None:
    shell, token = place.opened(owner, "sh", "-c", "read -r x; exit 7"), token_of(owner, SCOPES)

    def play(line: ShellLine, shown: Shown) -> None:
        if once(shown, "begin", "ready" in shown.kinds()):
            line.type(b"\r")

    shown = played(place.site.base, token, shell, play, lambda shown: "exit" in shown.kinds())
    assert next(frame for frame in shown.frames if frame["type"] == "exit")["code"] == 7


def test_the_servers_last_word_is_an_error(place: Place, owner: Actor, outsider: Actor) -> None:
    shell = place.opened(owner)
    with pytest.raises(StreamRefused) as refused:
        played(place.site.base, token_of(outsider, SCOPES), shell, lambda *_: None, lambda _: False)
    assert (refused.value.code, refused.value.reason) == (4504, "unknown_shell")
    with pytest.raises(StreamRefused) as refused:
        played(place.site.base, token_of(owner, ["runs:read"]), shell, lambda *_: None, lambda _: False)
    assert refused.value.code == 4503


def test_what_is_handed_back_in_a_cut_is_handed_back_after_it(place: Place, owner: Actor) -> None:
    """Asked for while there is no connection, it is said on the next one, until the server says whose it is."""
    shell, token = an_agents_shell(owner), token_of(owner, SCOPES)
    place.start(shell)

    async def run() -> None:
        def cut(reason: str, wait_seconds: float) -> None:
            line.hand_back()

        with faulty_proxy(place.site.base) as proxy:
            proxy.faults += [Fault(), Fault("drop")]
            line = ShellLine(proxy.base, token, key_of(shell), on_cut=cut)
            is_taken = False
            async with line, asyncio.timeout(SECONDS):
                async for item in line:
                    if not isinstance(item, ShellFrame):
                        continue
                    if item.type == "ready" and not is_taken:
                        line.take_control()
                    if item.type == "pilot" and item.data["mine"] and not is_taken:
                        is_taken = True
                        assert line._socket is not None
                        line._socket.transport.abort()
                    if item.type == "run" and is_taken and item.data["held_by"] is None:
                        break
            assert proxy.connections == 3

    asyncio.run(run())
    shell.refresh_from_db()
    assert shell.held_by is None


def test_control_that_is_asked_for_in_a_cut_is_taken_after_it(place: Place, owner: Actor) -> None:
    """Asked for while there is no connection, it is said on the next ones, until the server says who has it."""
    shell, token = place.opened(owner), token_of(owner, SCOPES)

    async def run() -> None:
        def cut(reason: str, wait_seconds: float) -> None:
            line.take_control()

        with faulty_proxy(place.site.base) as proxy:
            proxy.faults += [Fault(), Fault("drop")]
            line = ShellLine(proxy.base, token, key_of(shell), on_cut=cut)
            is_cut = False
            async with line, asyncio.timeout(SECONDS):
                async for item in line:
                    if not isinstance(item, ShellFrame) or item.type != "pilot":
                        continue
                    if not is_cut:
                        is_cut = True
                        assert not item.data["mine"]
                        assert line._socket is not None
                        line._socket.transport.abort()
                    if "taken" in item.data:
                        assert line.type(b"echo mi''ne\r")
                        break
                async for item in line:
                    if isinstance(item, ShellOutput) and b"mine" in item.data:
                        break
            assert proxy.connections == 3
            assert line._hands is None

    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready", role="pilot")
        asyncio.run(run())
        pilot.frame("pilot", mine=False)


def test_control_that_was_refused_is_not_taken_after_a_cut() -> None:
    """Taking over is explicit: what the server did not do, it does not do an hour later."""
    line = ShellLine("http://nowhere.invalid", "token", "shell_1")
    ready = {"type": "ready", "role": "viewer", "end": 0}
    other = {"type": "pilot", "generation": 3, "name": "bob", "mine": False}
    line._take(ready)
    line.take_control()
    line._take(other)
    assert line._hands is None
    line.desk.cut()
    line.take_control()
    line._take(ready)
    line._take(other)
    assert line._hands == "take_control", "that was how things stood"
    line._take(other)
    assert line._hands is None


def test_who_takes_control_again_hands_nothing_back() -> None:
    line = ShellLine("http://nowhere.invalid", "token", "shell_1")
    line.hand_back()
    assert line._hands == "hand_back"
    line.take_control()
    assert line._hands == "take_control"
    line.release_control()
    assert line._hands is None
