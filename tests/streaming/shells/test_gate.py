"""The gate of input alone, with a real database and a real terminal: nothing but its own question keeps a byte out."""

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from runs import failpoints
from runs.access import Actor
from runs.database import Database
from runs.decisions import agent_shells, controls
from runs.models import Run, Shell
from runs.shells import terminate_shell
from streaming.shells import gate
from streaming.shells.door import Door
from streaming.shells.gate import Gate
from tests.builders import a_shell, an_agents_shell
from tests.streaming.shells.conftest import QUIET, SECONDS, key_of
from tools.processes.terminals import link
from tools.processes.terminals.link import Terminal, start_terminal

pytestmark = pytest.mark.django_db(transaction=True)
PROGRAM = ("bash", "-c", "while read -r line; do echo got:$line; done")


class Told:
    """A door that only notes what goes out."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    async def say(self, kind: str, **fields: Any) -> None:
        self.frames.append({"type": kind, **fields})


class Desk:
    """A gate in front of a terminal, and all that came out of it."""

    def __init__(self, gate: Gate, terminal: Terminal, told: Told, db: Database) -> None:
        self.gate, self.terminal, self.told, self.db = gate, terminal, told, db
        self.output = b""

    async def until(self, is_true: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS):
            while not is_true():  # noqa: ASYNC110 - facts of several parties
                await asyncio.sleep(0.01)

    async def read(self) -> None:
        async for item in self.terminal:
            match item:
                case link.Output(_, data):
                    self.output += data
                case link.Taken(offset):
                    self.gate.take(offset)
                case link.News(news) if "taken" in news:
                    self.gate.typing.again(news["taken"])


@asynccontextmanager
async def a_desk(folder: Path, shell: Shell) -> AsyncIterator[Desk]:
    await start_terminal(str(folder), PROGRAM, key=key_of(shell), cwd=str(folder), env=QUIET)
    told = Told()
    async with (
        Database.open(ring=lambda effects: None) as db,
        Terminal.attach(str(folder), key_of(shell), role="pilot", generation=1) as terminal,
    ):
        gate = Gate(cast(Door, told), db, shell.run_id, shell.run.created_by_id)
        desk = Desk(gate, terminal, told, db)
        gate.open(terminal, 0)
        tasks = [asyncio.ensure_future(work) for work in (gate.pass_on(), gate.tell(), desk.read())]
        try:
            yield desk
        finally:
            for task in tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task


@pytest.fixture
def shell(owner: Actor) -> Shell:
    shell = a_shell(owner)
    Run.objects.filter(pk=shell.run_id).update(
        status="running", lease_owner="w", lease_until="2099-01-01T00:00Z", fence=1
    )
    return shell


def stop(owner: Actor, shell: Shell) -> None:
    """Have a stop recorded, in a thread whose connection nobody else would close."""
    try:
        terminate_shell(actor=owner, shell_id=shell.pk)
    finally:
        connection.close()


def play(
    terminals: tuple[Path, subprocess.Popen[bytes]], shell: Shell, scene: Callable[[Desk], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with a_desk(terminals[0], shell) as desk:
            await scene(desk)

    asyncio.run(run())


def test_what_is_typed_after_a_stop_was_recorded_stays_out(terminals: Any, shell: Shell, owner: Actor) -> None:
    async def scene(desk: Desk) -> None:
        await desk.gate.add(0, b"one\n")
        await desk.until(lambda: b"got:one" in desk.output)
        await sync_to_async(stop)(owner, shell)
        await desk.gate.add(4, b"two\n")
        await desk.until(lambda: bool(desk.told.frames and desk.told.frames[-1]["type"] == "input"))
        assert desk.told.frames[-1] == {"type": "input", "problem": "shut", "taken": 4}
        assert b"two" not in desk.output

    play(terminals, shell, scene)


def test_bytes_that_come_during_a_check_wait_for_the_next_one(terminals: Any, shell: Shell, owner: Actor) -> None:
    """Two actors: a stop, and a byte that is typed after it, while the answer to the question before is on its way."""
    reached, goes_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        reached.set()
        await goes_on.wait()

    async def scene(desk: Desk) -> None:
        await desk.gate.add(0, b"one\n")
        await reached.wait()
        await sync_to_async(stop)(owner, shell)
        await desk.gate.add(4, b"two\n")
        goes_on.set()
        await desk.until(lambda: any(frame["type"] == "input" for frame in desk.told.frames))
        await desk.until(lambda: b"got:one" in desk.output)  # it had begun before the stop
        assert b"two" not in desk.output

    with failpoints.armed("after_input_check", hold):
        play(terminals, shell, scene)


@pytest.mark.parametrize("whose", ["the agent's", "a teammate's"])
def test_in_an_agents_shell_only_who_has_taken_it_over_may_type(
    terminals: Any, owner: Actor, teammate: Actor, whose: str
) -> None:
    """They are in control at the terminal still, and the row says that it is the agent's again, or somebody else's."""
    shell = an_agents_shell(owner)
    of: dict[str, Any] = {"run_id": shell.run_id, "user_id": owner.user.pk}
    theirs = {**of, "user_id": teammate.user.pk}

    async def scene(desk: Desk) -> None:
        await desk.db.decide(controls.attach_pilot(**of, takes_over=True))
        await desk.gate.add(0, b"one\n")
        await desk.until(lambda: b"got:one" in desk.output)
        if whose == "the agent's":
            await desk.db.decide(agent_shells.hand_back(**of))
        else:
            await desk.db.decide(controls.attach_pilot(**theirs, takes_over=True))
        await desk.gate.add(4, b"two\n")
        await desk.until(lambda: desk.gate.terminal is None)
        assert b"two" not in desk.output

    play(terminals, shell, scene)


def test_what_has_gone_in_is_told_at_the_latest_when_typing_pauses(
    terminals: Any, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what goes in one after the other, only where it stands is told; nobody else's loss of it is told at all."""
    monkeypatch.setattr(gate, "TELL_SECONDS", 0.5)

    async def scene(desk: Desk) -> None:
        for number in range(4):
            await desk.gate.add(4 * number, b"%03d\n" % number)
            await desk.until(lambda number=number: b"got:%03d" % number in desk.output)
        await desk.until(lambda: desk.told.frames[-1:] == [{"type": "taken", "offset": 16}])
        assert len(desk.told.frames) <= 3
        await desk.gate.add(16, b"end\n")
        await desk.until(lambda: b"got:end" in desk.output)
        desk.gate.leave()
        told = len(desk.told.frames)
        await asyncio.sleep(0.6)
        assert len(desk.told.frames) == told

    play(terminals, shell, scene)
