"""A worker's hands on a real terminal: held as long as the claim, let go of, and proven."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tools.builders import ENV, wait_until
from tests.tools.processes.terminals.conftest import KEY
from tests.tools.processes.terminals.conftest import Terminals as Host
from tools.processes.terminals.host import socket_of
from tools.processes.terminals.owned import NoTerminal, Plan, Terminals, noted_keys
from tools.scope import CancelReason, Scope, ScopeCancelled, boottime

RUN = "run_1"


class Counted(Terminals):
    """Hands that count how often they have let go."""

    times = 0

    def let_go(self, run_id: str) -> None:
        self.times += 1
        super().let_go(run_id)


type Hands = Callable[[Host], Counted]


@pytest.fixture
def hands(terminals: Host) -> Iterator[Hands]:
    """Make a worker's hands, which let go before the host is ended: wards wait for their owners."""
    made: list[Counted] = []

    def make(host: Host) -> Counted:
        made.append(Counted(folder=host.folder, proof_dir=host.folder))
        return made[-1]

    yield make
    for one in made:
        one.close()


def plan(host: Host, *argv: str) -> Plan:
    return Plan(KEY, argv, str(host.folder), ENV, rows=24, cols=80, grace_seconds=0.2, adopt_seconds=600.0)


def held(ours: Terminals, *, fence: int = 1, scope: Scope | None = None) -> "asyncio.Task[object]":
    hold = ours.hold(KEY, run_id=RUN, fence=fence, scope=scope or Scope(), grace_seconds=0.2)
    return asyncio.get_running_loop().create_task(hold)


async def test_the_end_is_proven_and_nothing_is_left_once_it_is_stored(hands: Hands, terminals: Host) -> None:
    ours = hands(terminals)
    await ours.start(plan(terminals, "sh", "-c", "exit 4"))
    assert set(noted_keys(terminals.folder)) == {KEY}  # its proof may lie there too by now
    proof = await held(ours)
    assert (proof.gone, proof.status, proof.by_itself) == (True, 4, True)  # type: ignore[attr-defined]
    ours.release(RUN)
    await wait_until(lambda: not Path(socket_of(str(terminals.folder), KEY)).exists())
    assert sorted(path.name for path in terminals.folder.iterdir()) == ["host.lock", "host.sock"]


async def test_a_stop_before_it_is_held_stops_it(hands: Hands, terminals: Host) -> None:
    ours, scope = hands(terminals), Scope()
    await ours.start(plan(terminals, "sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done"))
    scope.cancel(CancelReason.USER)
    proof = await held(ours, scope=scope)
    assert (proof.gone, proof.by_itself, proof.cause) == (True, False, "stop")  # type: ignore[attr-defined]


@pytest.mark.parametrize("reason", [CancelReason.LOST, CancelReason.DRAIN])
async def test_a_claim_that_leaves_only_lets_go(hands: Hands, terminals: Host, reason: CancelReason) -> None:
    ours, scope = hands(terminals), Scope()
    await ours.start(plan(terminals, "sleep", "600"))
    holding = held(ours, scope=scope)
    scope.cancel(reason)
    with pytest.raises(ScopeCancelled):
        await holding
    scope = Scope()
    adopting = held(hands(terminals), fence=2, scope=scope)
    scope.cancel(CancelReason.USER)
    proof = await adopting
    assert proof.cause == "stop"  # type: ignore[attr-defined]


async def test_a_cancelled_wait_only_lets_go(hands: Hands, terminals: Host) -> None:
    ours = hands(terminals)
    await ours.start(plan(terminals, "sleep", "600"))
    holding = held(ours)
    await asyncio.sleep(0)
    holding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await holding
    async with terminals.seat("viewer") as viewer:
        assert "exit" not in viewer.terminal.welcome


async def test_a_lease_that_had_only_seemed_to_end_is_taken_up_again(hands: Hands, terminals: Host) -> None:
    """The worker was frozen for a moment: its ward let it go, and nobody else has come."""
    ours, scope = hands(terminals), Scope()
    await ours.start(plan(terminals, "sleep", "600"))
    ours.renew(RUN, boottime() + 0.3)
    holding = held(ours, scope=scope)
    await wait_until(lambda: ours.times)  # the ward's own clock has ended it
    ours.renew(RUN, boottime() + 60)
    assert not holding.done()
    scope.cancel(CancelReason.USER)  # only an owner can stop it
    proof = await holding
    assert proof.cause == "stop"  # type: ignore[attr-defined]


async def test_who_has_a_lower_fence_is_nobody(hands: Hands, terminals: Host) -> None:
    ours = hands(terminals)
    await ours.start(plan(terminals, "sleep", "600"))
    async with terminals.seat("owner", fence=5):
        with pytest.raises(ScopeCancelled):
            await held(ours, fence=4)
        with pytest.raises(ScopeCancelled):
            await held(ours, fence=5)


async def test_what_was_never_there_is_not_made_up(hands: Hands, terminals: Host) -> None:
    with pytest.raises(NoTerminal):
        await held(hands(terminals))
