"""Who watches a shell, as its sockets are told: live, by signs of life, and for nobody longer than the lease."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runs.access import Actor
from runs.models import Run, Shell, ShellViewer
from runs.supervisor.sweeps import sweep_once
from tests.builders import an_agents_shell
from tests.streaming.conftest import Site, running_server, wait_until
from tests.streaming.shells.conftest import Place, Seat

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def shells_server(
    django_db_setup: None, tmp_path_factory: pytest.TempPathFactory, terminals: tuple[Path, Any]
) -> Iterator[Site]:
    """A server whose leases are longer: a client that the test does not read for a while is not gone."""
    environment = {"OUTLIVE_TERMINALS": str(terminals[0]), "OUTLIVE_PRESENCE_SECONDS": "20"}
    with running_server(tmp_path_factory.mktemp("server"), **environment) as site:
        yield site


def says(seat: Seat, *people: tuple[str, int, bool]) -> None:
    """Read until the newest list is this one."""
    wanted = [{"name": name, "windows": windows, "mine": mine} for name, windows, mine in people]

    def newest() -> Any:
        told = [f for f in seat.frames if f["type"] == "watching"]
        return bool(told) and told[-1]["people"] == wanted

    seat.until(newest)


def test_all_are_told_who_watches_and_who_goes(place: Place, owner: Actor, teammate: Actor) -> None:
    """The pilot is none of them; whoever takes control is so no more, and who was in control watches from then on."""
    shell = place.opened(owner)
    me, other = owner.user.username, teammate.user.username
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready", role="pilot")
        says(pilot)
        with place.seat(shell, teammate) as viewer:
            viewer.frame("ready", role="viewer")
            says(viewer, (other, 1, True))
            says(pilot, (other, 1, False))
            with place.seat(shell, owner) as second:
                says(pilot, (other, 1, False), (me, 1, True))
                second.say("take_control")
                second.frame("pilot", mine=True)
                says(viewer, (other, 1, True), (me, 1, False))  # now it is the first window that watches
                pilot.frame("pilot", mine=False)
                says(pilot, (other, 1, False), (me, 1, True))
        says(pilot, (me, 1, True))
    wait_until(lambda: not ShellViewer.objects.exists(), 20, "rows that go with their sockets")


def test_whoever_watches_an_agents_shell_is_said_as_well(place: Place, owner: Actor, teammate: Actor) -> None:
    shell = an_agents_shell(owner)
    place.start(shell)
    with place.seat(shell, owner, role="pilot") as first:
        says(first, (owner.user.username, 1, True))
        with place.seat(shell, teammate) as second:
            says(first, (owner.user.username, 1, True), (teammate.user.username, 1, False))
            first.say("take_control")
            says(second, (teammate.user.username, 1, True))


def test_a_viewer_of_a_terminal_that_has_not_begun_is_there(place: Place, owner: Actor, teammate: Actor) -> None:
    shell = an_agents_shell(owner)
    with place.seat(shell, owner) as first:
        says(first, (owner.user.username, 1, True))
        with place.seat(shell, teammate):
            says(first, (owner.user.username, 1, True), (teammate.user.username, 1, False))


def test_who_says_nothing_falls_off_and_comes_back_with_a_sign_of_life(
    place: Place, owner: Actor, teammate: Actor
) -> None:
    """Its socket is still open. What time does to its row is done here, and its row is taken away by a supervisor."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, teammate, acks=False) as silent:
        silent.frame("ready")
        says(pilot, (teammate.user.username, 1, False))
        ShellViewer.objects.update(presence_until="2000-01-01T00:00Z")
        sweep_once()
        says(pilot)
        silent.say("keepalive")
        says(pilot, (teammate.user.username, 1, False))


def test_a_lapse_is_seen_without_a_supervisor(place: Place, owner: Actor, teammate: Actor) -> None:
    """Whoever gives a sign of life sees who has lapsed."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, teammate, acks=False) as silent:
        silent.frame("ready")
        says(pilot, (teammate.user.username, 1, False))
        ShellViewer.objects.update(presence_until="2000-01-01T00:00Z")
        pilot.say("keepalive")
        says(pilot)


def test_a_killed_web_process_leaves_nobody_for_longer_than_the_lease(
    place: Place, owner: Actor, teammate: Actor, tmp_path: Path
) -> None:
    """The lease of 10 s is really waited for: nothing else takes the row away."""
    shell = place.opened(owner)
    with running_server(tmp_path, OUTLIVE_TERMINALS=str(place.folder)) as site:
        with contextlib.ExitStack() as there:
            viewer = there.enter_context(Place(site, place.folder, place.host).seat(shell, teammate))
            viewer.frame("ready")
            with place.seat(shell, owner, role="pilot") as pilot:
                says(pilot, (teammate.user.username, 1, False))
                site.process.kill()
                says(pilot)


def test_keys_cost_no_presence(place: Place, owner: Actor, teammate: Actor) -> None:
    """However much is typed, the row of who watches is written by its own beat alone."""
    shell: Shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, teammate, acks=False) as viewer:
        viewer.frame("ready")
        says(pilot, (teammate.user.username, 1, False))
        until = ShellViewer.objects.get().presence_until
        version = Run.objects.get(pk=shell.run_id).version
        for n in range(50):
            pilot.type(f"echo k{n}''\r")
        pilot.sees("k49\r\n")
        assert ShellViewer.objects.get().presence_until == until
        assert Run.objects.get(pk=shell.run_id).version == version
