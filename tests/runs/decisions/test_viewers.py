"""Who watches a shell: rows with a lease, on which nothing depends."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.utils import timezone

from runs.conf import limits
from runs.database import decide
from runs.decisions import cancels, controls, viewers
from runs.ids import new_id
from runs.models import Run, ShellViewer
from runs.shells import get_shell, in_control, watching
from runs.states import CancelReason, Status
from runs.supervisor import sweeps
from tests.builders import a_shell, silent
from tests.races.two_actors import race

pytestmark = pytest.mark.django_db(transaction=True)


def come(run_id: UUID, user_id: int, ring: Any = silent) -> UUID:
    viewer_id = new_id()
    assert decide(viewers.come(viewer_id=viewer_id, run_id=run_id, user_id=user_id), ring=ring)
    return viewer_id


def clocked(seconds: float) -> datetime:
    return timezone.now() + timedelta(seconds=seconds)


def lapse(*ids: UUID) -> None:
    ShellViewer.objects.filter(pk__in=ids).update(presence_until=clocked(-1))


def test_who_watches_is_seen_and_counts_for_nothing(owner, teammate):
    """No grace is cleared by a viewer, none starts when they go, and nobody is in control."""
    shell = a_shell(owner)
    before = Run.objects.get(pk=shell.run_id)
    assert (watching(get_shell(teammate, shell.pk)), in_control(get_shell(teammate, shell.pk))) == ([], None)
    first = come(shell.run_id, teammate.user.pk)
    come(shell.run_id, owner.user.pk)
    come(shell.run_id, teammate.user.pk)
    seen = [(one.name, one.windows) for one in watching(get_shell(owner, shell.pk))]
    assert seen == [(teammate.user.username, 2), (owner.user.username, 1)]
    run = Run.objects.get(pk=shell.run_id)
    assert (run.control_count, run.grace_expires_at) == (0, before.grace_expires_at)
    assert decide(viewers.leave(viewer_id=first, run_id=shell.run_id), ring=silent)
    assert [one.windows for one in watching(get_shell(owner, shell.pk))] == [1, 1]
    attached = decide(controls.attach_pilot(run_id=shell.run_id, user_id=owner.user.pk), ring=silent)
    assert isinstance(attached, controls.Attached)
    assert in_control(get_shell(teammate, shell.pk)) == owner.user.username


def test_coming_and_going_ring_and_a_sign_of_life_does_not(owner):
    shell = a_shell(owner)
    bells: list[Any] = []
    version = Run.objects.get(pk=shell.run_id).version
    viewer_id = come(shell.run_id, owner.user.pk, ring=bells.extend)
    assert len(bells) == 1
    assert not decide(viewers.come(viewer_id=viewer_id, run_id=shell.run_id, user_id=owner.user.pk), ring=bells.extend)
    assert decide(viewers.renew(viewer_id=viewer_id), ring=bells.extend)
    assert len(bells) == 1
    assert decide(viewers.leave(viewer_id=viewer_id, run_id=shell.run_id), ring=bells.extend)
    assert not decide(viewers.leave(viewer_id=viewer_id, run_id=shell.run_id), ring=bells.extend)
    assert (len(bells), Run.objects.get(pk=shell.run_id).version) == (2, version + 2)
    assert not decide(viewers.renew(viewer_id=viewer_id), ring=bells.extend)


def test_who_gives_no_sign_of_life_is_nobody_and_is_taken_away(owner, teammate):
    """A web process that was killed leaves its viewers for the lease at most, also where nobody sweeps."""
    shell = a_shell(owner)
    gone, here = come(shell.run_id, teammate.user.pk), come(shell.run_id, owner.user.pk)
    until = ShellViewer.objects.get(pk=here).presence_until
    assert until <= clocked(limits().presence_seconds)
    lapse(gone)
    assert [one.user_id for one in watching(get_shell(owner, shell.pk))] == [owner.user.pk]
    version = Run.objects.get(pk=shell.run_id).version
    sweeps.sweep_once()
    assert [one.pk for one in ShellViewer.objects.all()] == [here]
    assert Run.objects.get(pk=shell.run_id).version == version + 1  # those who follow look again


def test_a_sign_of_life_that_comes_before_the_sweep_keeps_the_place(owner):
    shell = a_shell(owner)
    viewer_id = come(shell.run_id, owner.user.pk)
    lapse(viewer_id)
    assert decide(viewers.renew(viewer_id=viewer_id), ring=silent)
    assert not decide(viewers.leave(viewer_id=viewer_id, run_id=shell.run_id, if_lapsed=True), ring=silent)
    assert ShellViewer.objects.get().presence_until > clocked(0)


def test_nobody_watches_what_has_ended(owner):
    shell = a_shell(owner)
    viewer_id = come(shell.run_id, owner.user.pk)
    decide(cancels.request_cancel(run_id=shell.run_id, reason=CancelReason.USER), ring=silent)
    assert Run.objects.get(pk=shell.run_id).status == Status.CANCELLED
    assert watching(get_shell(owner, shell.pk)) == []
    assert not decide(viewers.come(viewer_id=new_id(), run_id=shell.run_id, user_id=owner.user.pk), ring=silent)
    version = Run.objects.get(pk=shell.run_id).version
    assert decide(viewers.leave(viewer_id=viewer_id, run_id=shell.run_id), ring=silent)
    assert Run.objects.get(pk=shell.run_id).version == version


def test_nobody_comes_to_watch_what_ends_at_that_moment(owner):
    """A stop that ends the run, and somebody who comes: their first statement was sent while it went on."""
    shell = a_shell(owner)
    stop = cancels.request_cancel(run_id=shell.run_id, reason=CancelReason.USER)
    came = viewers.come(viewer_id=new_id(), run_id=shell.run_id, user_id=owner.user.pk)
    assert race(stop, came)[1] is False
    assert not ShellViewer.objects.exists()


@pytest.mark.parametrize("is_back_first", [True, False])
def test_whoever_comes_back_as_their_lease_is_swept_is_there_or_is_told_to_come_anew(owner, is_back_first):
    """A sign of life and the sweep of a lapsed viewer: either commits while the other waits."""
    shell = a_shell(owner)
    viewer_id = come(shell.run_id, owner.user.pk)
    lapse(viewer_id)
    back, sweep = (
        viewers.renew(viewer_id=viewer_id),
        viewers.leave(viewer_id=viewer_id, run_id=shell.run_id, if_lapsed=True),
    )
    if is_back_first:
        assert race(back, sweep) == (True, False)
    else:
        assert race(sweep, back) == (True, False)
    assert ShellViewer.objects.filter(pk=viewer_id).exists() == is_back_first
