"""The socket of a shell, against a real server, a real host of terminals and a real bash."""

import hashlib
import re

import pytest
from django.utils import timezone

from runs.access import Actor
from runs.models import AuditEntry, ControlConnection, Run
from runs.shells import terminate_shell
from tests.builders import a_shell
from tests.streaming.conftest import wait_until
from tests.streaming.shells.conftest import Place, key_of

pytestmark = pytest.mark.django_db(transaction=True)
LINE = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-\n"


def test_a_pilot_types_and_a_viewer_sees_it(place: Place, owner: Actor, teammate: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, teammate) as viewer:
        ready = pilot.frame("ready")
        assert (ready["role"], ready["shell"], ready["grace_s"]) == ("pilot", key_of(shell), 900.0)
        assert viewer.frame("ready")["role"] == "viewer"
        viewer.type("echo vie''wer\r")
        pilot.say("resize", rows=40, cols=100)
        pilot.type("echo pi''lot; stty size\r")
        for seat in (pilot, viewer):
            seat.sees("pilot\r\n40 100\r\n")
            size = seat.frame("size", rows=40, cols=100)
            assert size["sized_at"] < seat.end
            assert b"viewer\r\n" not in seat.output
        pilot.until(lambda: pilot.taken == pilot.typed)
        with place.seat(shell, teammate) as late:
            assert late.frame("ready")["sized_at"] == size["sized_at"]
        assert viewer.frame("pilot", generation=ready["generation"])["mine"] is False
        assert pilot.frame("pilot", mine=True)["name"] == owner.user.get_username()
        wait_until(lambda: Run.objects.get(pk=shell.run_id).control_count == 1)
    wait_until(lambda: Run.objects.get(pk=shell.run_id).grace_expires_at)


def test_b45_a_paste_of_100_kb_goes_in_once_and_whole(place: Place, owner: Actor) -> None:
    paste = LINE * 1600
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready")
        pilot.type("stty -echo; echo REA''DY; head -c 102400 | sha256sum\r")
        pilot.sees("READY")
        pilot.type(paste)
        pilot.sees(hashlib.sha256(paste).hexdigest())
        pilot.until(lambda: pilot.taken == pilot.typed)


def test_b45_a_cut_in_the_middle_of_a_paste_loses_and_doubles_nothing(place: Place, owner: Actor) -> None:
    """The client sends what was not acknowledged again; the terminal takes no byte twice."""
    paste = LINE * 1600
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as first:
        had = first.frame("ready")["generation"]
        first.type("stty -echo; echo REA''DY; head -c 102400 | sha256sum\r")
        first.sees("READY")
        base = first.typed
        first.type(paste[:60_000])
        first.until(lambda: first.taken > base)
        known, end = first.taken, first.end
    with place.seat(shell, owner, role="pilot", had=had, from_=end) as again:
        ready = again.frame("ready")
        assert ready["continues"] is True
        assert known <= ready["taken"] <= base + 60_000
        again.type(paste[again.taken - base :])
        again.sees(hashlib.sha256(paste).hexdigest())


def test_b46_a_client_that_comes_back_goes_on_at_its_byte(place: Place, owner: Actor) -> None:
    """Output while it is away is neither lost nor shown twice (Seat checks each offset)."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as first:
        first.frame("ready")
        first.type("for i in $(seq 1 3000); do echo L$i; done; echo do''ne\r")
        first.sees("L100\r\n")
        text, end, had = bytes(first.output), first.end, first.generation
    with place.seat(shell, owner, role="pilot", had=had, from_=end) as again:
        again.sees("done\r\n")
        lines = re.findall(rb"L(\d+)\r\n", text + bytes(again.output))
        assert lines == [b"%d" % n for n in range(1, 3001)]
        assert again.frame("ready")["role"] == "pilot"


def test_what_is_not_kept_any_more_is_named(place: Place, owner: Actor) -> None:
    shell = place.opened(owner, "bash", "-c", "seq 1 1000000; echo over; read -r end")
    with place.seat(shell, owner) as seat:
        seat.sees("over\r\n")
        assert seat.begin is not None
    with place.seat(shell, owner, from_=5) as late:
        skipped = late.frame("skipped")
        assert skipped["from"] == 5
        assert skipped["to"] > 1_000_000
        late.sees("over\r\n")


def test_an_offset_that_was_never_reached_is_no_silent_stream(place: Place, owner: Actor) -> None:
    """It waited for a byte that never comes. No screen is kept here: output begins at the oldest byte."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready")
        pilot.type("echo fir''st\r")
        pilot.sees("first")
        with place.seat(shell, owner, from_=10**12) as lost:
            assert lost.frame("ready")["from"] is None
            lost.sees("first")
            pilot.type("echo sec''ond\r")
            lost.sees("second")


def test_b48_a_second_window_watches_until_it_takes_control(place: Place, owner: Actor) -> None:
    """And what the first one types and sizes after that has no effect; nobody takes it back by itself."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as old:
        old.frame("ready", role="pilot")
        with place.seat(shell, owner, role="pilot") as new:
            assert new.frame("ready")["role"] == "viewer"
            new.type("echo to''o early\r")
            new.say("take_control")
            new.frame("pilot", mine=True)
            old.frame("pilot", generation=new.generation, mine=False)
            old.type("echo o''ld\r")
            old.say("resize", rows=7, cols=7)
            new.say("resize", rows=33, cols=99)
            new.frame("size", rows=33, cols=99)
            new.type("stty size; echo ne''w\r")
            new.sees("33 99\r\nnew\r\n")
            old.sees("33 99\r\nnew\r\n")
            for text in (b"old\r\n", b"too early\r\n"):
                assert text not in new.output
            assert ControlConnection.objects.filter(run=shell.run_id, is_live=True).count() == 1
            assert len([f for f in new.frames if f["type"] == "pilot" and f["mine"]]) <= 2
            with place.seat(shell, owner, role="pilot", had=old.generation) as ghost:  # its place was taken meanwhile
                assert ghost.frame("ready")["role"] == "viewer"
        run = Run.objects.get(pk=shell.run_id)
        wait_until(lambda: Run.objects.get(pk=run.pk).grace_expires_at, what="the grace, with a viewer still there")
        old.until(lambda: [f for f in old.frames if f["type"] == "run" and f["grace_expires_at"]])


def test_an_operator_who_takes_over_is_put_down(place: Place, owner: Actor, operator: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot, place.seat(shell, operator) as other:
        pilot.frame("ready")
        other.frame("ready")
        other.say("take_control")
        other.frame("pilot", mine=True)
        pilot.frame("pilot", mine=False, name=operator.user.get_username())
        entry = wait_until(lambda: AuditEntry.objects.filter(action="shell.taken_over").first())
        assert (entry.user, entry.subject) == (operator.user, key_of(shell))


def test_whoever_may_only_watch_cannot_take_control(place: Place, owner: Actor, teammate: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, teammate, role="pilot") as viewer:
        assert viewer.frame("ready")["role"] == "viewer"
        viewer.say("take_control")
        viewer.frame("pilot")
        viewer.type("echo n''o\r")
        with place.seat(shell, owner, role="pilot") as pilot:
            pilot.frame("ready", role="pilot")
            pilot.type("echo y''es\r")
            pilot.sees("yes\r\n")
            assert b"no\r\n" not in pilot.output


def test_taking_the_control_that_one_has_changes_nothing(place: Place, owner: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready", role="pilot")
        for _ in range(20):
            pilot.say("take_control")
        pilot.until(lambda: [f["type"] for f in pilot.frames].count("pilot") >= 21)
        assert ControlConnection.objects.filter(run=shell.run_id).count() == 1
        pilot.type("echo st''ill\r")
        pilot.sees("still\r\n")


def test_control_that_is_let_go_of_is_nobodys_until_it_is_taken_again(place: Place, owner: Actor) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as seat:
        seat.frame("ready")
        seat.say("release_control")
        seat.frame("pilot", generation=None)
        seat.type("echo n''o\r")
        assert Run.objects.get(pk=shell.run_id).grace_expires_at is not None
        seat.say("take_control")
        seat.until(lambda: seat.frames[-1].get("mine"))
        seat.type("echo y''es\r")
        seat.sees("yes\r\n")
        assert b"no\r\n" not in seat.output


def test_who_watches_is_told_when_nobody_is_in_control(place: Place, owner: Actor) -> None:
    """The terminal hears of pilots that come, not of those that let go or leave: this is told by the run's rows."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="viewer") as viewer:
        viewer.frame("pilot", name=None)
        for leaves in (lambda: pilot.say("release_control"), lambda: pilot.socket.close()):
            viewer.frames.clear()
            with place.seat(shell, owner, role="pilot") as pilot:
                pilot.frame("ready", role="pilot")
                viewer.frame("pilot", name="owner", mine=False)
                viewer.frames.clear()
                leaves()
                viewer.frame("pilot", generation=None, name=None, mine=False)


def test_after_a_stop_is_recorded_nothing_more_goes_in(place: Place, owner: Actor) -> None:
    """Nobody has told the terminal: no worker runs here. The gate alone keeps the byte out."""
    shell = place.opened(owner, "bash", "-c", "read -r line; echo got:$line; sleep 1000")
    Run.objects.filter(pk=shell.run_id).update(
        status="running", lease_owner="w", lease_until="2099-01-01T00:00Z", fence=1
    )
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready")
        terminate_shell(actor=owner, shell_id=shell.pk)
        pilot.type("rm -rf /\r")
        pilot.frame("input", problem="shut", taken=0)
        pilot.frame("run", status="cancel_requested", cancel_reason="user")
        assert b"got:" not in pilot.output
        assert pilot.taken == 0


def test_a_shell_that_has_ended_says_so_and_closes(place: Place, owner: Actor) -> None:
    """No terminal was ever begun; the run is cancelled at once."""
    shell = a_shell(owner)
    with place.seat(shell, owner, role="pilot") as waiting:
        waiting.frame("run", status="queued")
        terminate_shell(actor=owner, shell_id=shell.pk)
        waiting.frame("run", status="cancelled")
        waiting.frame("exit", code=None, why="user")
        assert waiting.closed_with() == (1000, "ended")
    with place.seat(shell, owner) as late:
        late.frame("exit", why="user")
        assert late.closed_with() == (1000, "ended")


def test_a_terminal_that_begins_later_is_waited_for(place: Place, owner: Actor) -> None:
    shell = a_shell(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("run", status="queued")
        pilot.say("resize", rows=20, cols=60)
        place.start(shell)
        assert pilot.frame("ready")["role"] == "pilot"
        pilot.type("stty size\r")
        pilot.sees("20 60\r\n")


def test_a_pilot_is_told_although_who_took_its_place_never_reached_the_terminal(place: Place, owner: Actor) -> None:
    """Another window took over, and was gone before its server attached: the first one must not type into nothing."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("pilot", mine=True)
        ControlConnection.objects.filter(run=shell.run_id).update(is_live=False, closed_at=timezone.now())
        pilot.say("keepalive")
        pilot.frame("pilot", mine=False, generation=None)


def test_an_exit_comes_after_the_last_byte(place: Place, owner: Actor) -> None:
    """B56."""
    shell = place.opened(owner)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.frame("ready")
        pilot.type("exec python3 -c \"import sys;sys.stdout.write('hello'*4096);sys.exit(3)\"\r")
        pilot.frame("exit", code=3, signal=None, why="exited")
        assert bytes(pilot.output).endswith(b"hello" * 4096)


def test_b20_bytes_are_never_decoded_on_the_way(place: Place, owner: Actor) -> None:
    """An emoji comes byte by byte, each flushed alone, and bytes that no encoding knows."""
    word, noise = "crème 家族👨‍👩‍👧 ok".encode(), bytes(range(128, 256)) + b"\x00\xff"
    program = (
        "import os,sys,time\n"
        "os.write(1, b'RAW'); sys.stdin.readline()\n"
        f"for b in {word + noise!r}: os.write(1, bytes([b])); time.sleep(0.002)\n"
        "os.write(1, b'END'); sys.stdin.readline()"
    )
    shell = place.opened(owner, "python3", "-c", "import tty; tty.setraw(0)\n" + program)
    with place.seat(shell, owner, role="pilot") as pilot:
        pilot.sees("RAW")  # becoming raw throws away what was typed before
        pilot.type("é家\n".encode())
        pilot.sees("END")
        assert bytes(pilot.output).endswith(word + noise + b"END")


@pytest.mark.parametrize(
    "said", ["nonsense", "[]", '{"type":"ack","offset":-1}', '{"type":"resize","rows":0,"cols":9}']
)
def test_nonsense_ends_the_connection(place: Place, owner: Actor, said: str) -> None:
    shell = place.opened(owner)
    with place.seat(shell, owner) as seat:
        seat.frame("ready")
        seat.socket.send(said)
        assert seat.closed_with() == (4500, "bad_protocol")
