"""The shortest traces of what the model plants in control connections (../shared/model/control.py), on the real code.

By the name of the rule that the trace breaks where it is missing. After each move the model's own invariants hold: no
grace beside a live connection, and where nobody is there, a grace.
"""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import controls
from runs.models import ControlConnection, Run
from runs.supervisor import sweeps
from runs.supervisor.behind import Behind
from tests.builders import a_run, silent

GONE = next(sweep for sweep in sweeps.SWEEPS if sweep.name == "client_gone")


class Play:
    """One run with a grace. `generation` numbers are the model's: the first connection is 1."""

    def __init__(self, owner: Any) -> None:
        self.run, self.user_id = a_run(owner, on_disconnect="grace", grace_seconds=5.0), owner.user.pk
        self.check()

    def check(self) -> None:
        self.run.refresh_from_db()
        live = ControlConnection.objects.filter(run=self.run, is_live=True).count()
        assert self.run.control_count == live
        if self.run.cancel_id is None:
            assert (self.run.grace_expires_at is None) == bool(live)

    def of(self, generation: int) -> UUID:
        return ControlConnection.objects.get(run=self.run, generation=generation).pk

    def attaches(self) -> None:
        assert decide(controls.attach(run_id=self.run.pk, user_id=self.user_id), ring=silent) is not None
        self.check()

    def detach_arrives(self, generation: int) -> None:
        decide(controls.detach(connection_id=self.of(generation)), ring=silent)
        self.check()

    def lapses(self, generation: int) -> None:
        past = timezone.now() - timedelta(seconds=1)
        ControlConnection.objects.filter(pk=self.of(generation)).update(presence_until=past)
        assert decide(controls.lapse(connection_id=self.of(generation)), ring=silent)
        self.check()

    def renews(self, generation: int) -> bool:
        is_there = decide(controls.renew_presence(connection_id=self.of(generation)), ring=silent)
        self.check()
        return is_there

    def grace_runs_out(self) -> None:
        past = timezone.now() - timedelta(seconds=1)
        assert Run.objects.filter(pk=self.run.pk, grace_expires_at__isnull=False).update(grace_expires_at=past)

    def overdue_row_is_read(self) -> dict[str, Any]:
        (row,) = GONE.read(Behind())
        return row

    def fires(self, row: dict[str, Any]) -> None:
        decide(GONE.act(row), ring=silent)
        self.check()


@pytest.fixture
def play(owner: Any) -> Play:
    return Play(owner)


def test_create_counts(play: Play) -> None:
    assert play.run.grace_expires_at is not None


def test_attach_clears(play: Play) -> None:
    play.attaches()
    assert play.run.grace_expires_at is None


def test_detach_own_row_and_last_only(play: Play) -> None:
    play.attaches()
    play.attaches()
    play.detach_arrives(1)
    assert (play.run.control_count, play.run.grace_expires_at) == (1, None)


def test_fire_guard(play: Play) -> None:
    play.grace_runs_out()
    row = play.overdue_row_is_read()
    play.attaches()
    play.fires(row)
    assert play.run.cancel_id is None


def test_what_the_guard_lets_through(play: Play) -> None:
    """The same trace without the attach: it is the guard that keeps the run."""
    play.grace_runs_out()
    play.fires(play.overdue_row_is_read())
    assert play.run.cancel_reason == "client_gone"


def test_lapse_starts(play: Play) -> None:
    play.attaches()
    play.lapses(1)
    assert play.run.grace_expires_at is not None


def test_lapse_reversible_and_renew_writes(play: Play) -> None:
    play.attaches()
    play.lapses(1)
    assert play.renews(1)
    assert (play.run.control_count, play.run.grace_expires_at) == (1, None)


def test_an_ended_row_is_not_renewed(play: Play) -> None:
    """Its consumer attaches anew or closes its socket."""
    play.attaches()
    play.detach_arrives(1)
    assert not play.renews(1)
    assert play.run.grace_expires_at is not None
