"""What goes wrong at a shell's socket: floods, readers that hang, frozen gates, peers that vanish, deploys."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from runs.access import Actor
from runs.database import conninfo, decide
from runs.decisions import controls
from runs.models import ControlConnection, Membership, Role, Run, Shell, ShellTarget
from runs.shells import terminate_shell
from tests.streaming.conftest import running_server, wait_until
from tests.streaming.shells.conftest import Place, Seat, key_of

pytestmark = pytest.mark.django_db(transaction=True)
FLOOD_SECONDS = 3.0
MOST_GROWTH_MB = 40.0
MOST_ECHO_SECONDS = 2.0  # 0.02 on a quiet machine; row h of the bench measures it


@contextlib.contextmanager
def kept_reading(seat: Seat) -> Iterator[None]:
    """Read, in a thread, what a flood sends, keeping only the end of it."""
    is_over = threading.Event()

    def read() -> None:
        while not is_over.is_set():
            with contextlib.suppress(TimeoutError):
                seat.next(0.2)
            if len(seat.output) > 1 << 20 and seat.begin is not None:
                seat.begin += len(seat.output) - 4096
                del seat.output[:-4096]

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            yield
        finally:
            is_over.set()
    reading.result()


def test_b44_a_flood_leaves_memory_flat_and_everybody_else_alone(place: Place, owner: Actor) -> None:
    """A viewer that reads, one that hangs, and the pilot; another session's echo; Ctrl-C; then the next command.

    `yes` on the whole installation: tests/chaos/shells.
    """
    shell, other = place.opened(owner), place.opened(owner)
    with (
        place.seat(shell, owner, role="pilot") as pilot,
        place.seat(shell, owner, acks=False) as stalled,
        place.seat(other, owner, role="pilot") as quiet,
    ):
        for seat in (pilot, stalled, quiet):
            seat.frame("ready")
        quiet.type("cat\r")
        quiet.sees("cat\r\n")
        before = place.site.memory_mb()
        pilot.type("cat /dev/zero\r")
        with kept_reading(pilot):
            end, most = time.monotonic() + FLOOD_SECONDS, 0.0
            echoes: list[float] = []
            while time.monotonic() < end:
                began = time.monotonic()
                quiet.output.clear()
                quiet.begin = None
                quiet.type("k")
                quiet.sees("k")
                echoes.append(time.monotonic() - began)
                most = max(most, place.site.memory_mb() - before)
                time.sleep(0.02)
            pilot.type(b"\x03")
            wait_until(lambda: b"$ " in pilot.output[-200:], 20, "the prompt")  # what comes before it may be flushed
            pilot.type("echo BA''CK\r")
            wait_until(lambda: b"BACK" in pilot.output, 20, "the prompt after Ctrl-C")
        assert most < MOST_GROWTH_MB
        assert sorted(echoes)[len(echoes) // 2] < MOST_ECHO_SECONDS
        stalled.acks = True
        stalled.say("ack", offset=stalled.end)
        stalled.frame("skipped")
        stalled.sees("BACK")


def test_input_that_was_let_in_before_a_stop_and_comes_after_it_does_not_go_in(
    place: Place, owner: Actor, tmp_path: Path
) -> None:
    """The web process freezes between its check and the send, for longer than a permit is good; meanwhile a stop."""
    gate = tmp_path / "gate"
    failpoints = f"after_input_check=wait:{gate}"
    with running_server(tmp_path, OUTLIVE_TERMINALS=str(place.folder), OUTLIVE_FAILPOINTS=failpoints) as site:
        frozen = Place(site, place.folder, place.host)
        shell = frozen.opened(owner, "bash", "-c", "read -r line; echo got:$line; sleep 1000")
        under_way(shell)
        with frozen.seat(shell, owner, role="pilot") as pilot:
            pilot.frame("ready")
            known = ControlConnection.objects.get(run=shell.run_id).presence_until
            pilot.type("rm -rf /\r")
            wait_until(lambda: Path(f"{gate}.reached").exists(), 30, "the check")
            # Else it is frozen in that transaction, with the run's row locked; the next one comes 3 s later.
            wait_until(
                lambda: ControlConnection.objects.get(run=shell.run_id).presence_until > known, 30, "its renewal"
            )
            os.kill(site.process.pid, signal.SIGSTOP)
            terminate_shell(actor=owner, shell_id=shell.pk)
            time.sleep(2.2)  # the permit's two seconds, by the clock of the machine
            gate.touch()
            os.kill(site.process.pid, signal.SIGCONT)
            pilot.frame("input", problem="shut", taken=0)
            assert b"got:" not in pilot.output


def under_way(shell: Shell) -> None:
    """Give the run a claim that lasts, so that a stop is recorded and does not end it at once."""
    Run.objects.filter(pk=shell.run_id).update(
        status="running", lease_owner="w", lease_until="2099-01-01T00:00Z", fence=1
    )


def test_a_deploy_sends_everybody_away_to_come_back(place: Place, owner: Actor, tmp_path: Path) -> None:
    with running_server(tmp_path, OUTLIVE_TERMINALS=str(place.folder)) as site:
        old = Place(site, place.folder, place.host)
        shell = old.opened(owner)
        with old.seat(shell, owner, role="pilot") as pilot, old.seat(shell, owner) as viewer:
            had = pilot.frame("ready")["generation"]
            pilot.type("X=kept\r")
            pilot.until(lambda: pilot.taken == pilot.typed)
            viewer.frame("ready")
            site.process.send_signal(signal.SIGTERM)
            assert viewer.closed_with() == (4030, "server_restart")
            assert pilot.closed_with() == (4030, "server_restart")
            end = pilot.end
    with place.seat(shell, owner, role="pilot", had=had, from_=end) as again:
        again.frame("ready", role="pilot")
        again.type("echo is-$X\r")
        again.sees("is-kept")
        run = Run.objects.get(pk=shell.run_id)
        assert (run.status, run.grace_expires_at) == ("queued", None)


def test_who_comes_while_the_database_cannot_answer_is_told_when_to_come_back(place: Place, owner: Actor) -> None:
    """Somebody holds the run's row for longer than any decision waits: the close says why, and when to come back."""
    shell = place.opened(owner)
    with psycopg.connect(conninfo()) as somebody:
        somebody.execute("select 1 from runs_run where id = %s for update", [shell.run_id])
        with place.seat(shell, owner, role="pilot") as seat:
            told = seat.frame("closing")
            assert (told["reason"], told["reconnect"], told["retry_after"]) == ("database_away", True, 2.0)
            assert seat.closed_with() == (told["code"], "database_away")
    with place.seat(shell, owner, role="pilot") as seat:
        seat.frame("ready", role="pilot")


def test_b49_a_pilot_that_gives_no_sign_of_life_loses_its_place(place: Place, owner: Actor) -> None:
    """It is still connected, but says nothing. What the supervisor does to its row is done here; then it comes back."""
    shell = place.opened(owner)
    with place.seat(shell, owner, acks=False, role="pilot") as silent:
        silent.frame("ready")
        row = ControlConnection.objects.get(run=shell.run_id)
        ControlConnection.objects.filter(pk=row.pk).update(presence_until="2000-01-01T00:00Z")
        assert decide(controls.lapse(connection_id=row.pk))
        silent.until(lambda: [f for f in silent.frames if f["type"] == "run" and f["grace_expires_at"]])
        silent.say("keepalive")
        wait_until(lambda: Run.objects.get(pk=shell.run_id).control_count == 1, 20, "its return")
        assert Run.objects.get(pk=shell.run_id).grace_expires_at is None


def test_b49_fifty_attaches_that_are_refused_leave_nothing_behind(place: Place, owner: Actor, outsider: Actor) -> None:
    shell = place.opened(owner)
    web = psutil.Process(place.site.process.pid)
    with place.seat(shell, owner) as seat:
        seat.frame("ready")
    known = wait_until(lambda: settled(web.num_fds), what="descriptors that stay")
    for number in range(50):
        if number % 2:
            with place.seat(shell, outsider, role="pilot") as refused:
                assert refused.closed_with() == (4504, "unknown_shell")
        else:
            with place.seat(shell, owner, role="pilot", from_="x") as refused:
                assert refused.closed_with() == (4500, "bad_protocol")
    wait_until(lambda: web.num_fds() <= known + 5, 20, "the descriptors that they had")
    assert ControlConnection.objects.filter(run=shell.run_id).count() == 0


def settled(count: Callable[[], int]) -> int:
    first = count()
    time.sleep(0.2)
    return first if count() == first else 0


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_b50_a_foreign_page_does_not_get_as_far_as_a_socket(place: Place, owner: Actor, origin: str) -> None:
    shell = place.opened(owner)
    headers: dict[str, Any] = {"Cookie": "sessionid=x"} | ({"Origin": origin} if origin else {})
    url = f"{place.site.base.replace('http', 'ws')}/ws/v1/shells/{key_of(shell)}/"
    with pytest.raises(InvalidStatus) as refused, connect(url, additional_headers=headers):
        pass
    assert refused.value.response.status_code == 403


def test_a_target_that_is_closed_while_somebody_types_there_takes_no_more(
    place: Place, owner: Actor, outsider: Actor
) -> None:
    """Disabled, for other people, for a higher role: whichever it is, the pilot comes back as a viewer."""
    target = ShellTarget.objects.create(tenant=owner.tenant, name="box")
    shell = place.opened(owner, target="box")
    closings: list[Callable[[], Any]] = [
        lambda: ShellTarget.objects.filter(pk=target.pk).update(is_enabled=False),
        lambda: ShellTarget.objects.filter(pk=target.pk).update(min_role=Role.ADMIN),
        lambda: target.people.set([outsider.user]),
    ]
    for close in closings:
        with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, owner) as viewer:
            pilot.frame("ready", role="pilot")
            viewer.frame("ready", role="viewer")
            close()
            assert pilot.closed_with() == (4013, "role_changed")
        with place.seat(shell, owner, role="pilot") as again:
            assert again.frame("ready")["role"] == "viewer"
        ShellTarget.objects.filter(pk=target.pk).update(is_enabled=True, min_role=Role.RUNNER)
        target.people.clear()


def test_whoever_loses_the_right_to_pilot_comes_back_as_a_viewer(place: Place, owner: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready", role="pilot")
        Membership.objects.filter(user=owner.user).update(role=Role.VIEWER)
        assert pilot.closed_with() == (4013, "role_changed")
    with place.seat(shell, owner, role="pilot") as viewer:
        assert viewer.frame("ready")["role"] == "viewer"
