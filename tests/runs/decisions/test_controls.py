"""Control connections: only the loss of the last one starts a grace, and a late word of an old one starts nothing."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs.conf import limits
from runs.database import decide
from runs.decisions import cancels, controls
from runs.ids import new_id
from runs.models import ControlConnection, Run
from runs.states import CancelReason
from tests.builders import a_claim, a_run, silent


def attach(run, actor):
    attached = decide(controls.attach(run_id=run.pk, user_id=actor.user.pk), ring=silent)
    run.refresh_from_db()
    return attached


def detach(run, attached):
    done = decide(controls.detach(connection_id=attached.connection_id), ring=silent)
    run.refresh_from_db()
    return done


def graced(actor):
    return a_run(actor, on_disconnect="grace", grace_seconds=5.0)


def test_a_page_that_never_opens_has_its_grace_and_thirty_seconds(owner):
    run = graced(owner)
    assert run.grace_expires_at - run.created_at > timedelta(seconds=34)
    assert a_run(owner).grace_expires_at is None


def test_attaching_clears_the_grace_and_losing_the_last_one_starts_it(owner):
    run = graced(owner)
    first, second = attach(run, owner), attach(run, owner)
    assert (run.control_count, run.grace_expires_at) == (2, None)
    assert second.generation > first.generation
    detach(run, first)
    assert (run.control_count, run.grace_expires_at) == (1, None)
    detach(run, second)
    assert run.control_count == 0
    assert run.grace_expires_at is not None


def test_each_coming_and_going_raises_the_version(owner):
    """By it an end that was decided without a lock finds out (runs/decisions/core.py)."""
    run = graced(owner)
    versions = [run.version]
    for _ in range(2):
        last = attach(run, owner)
        versions.append(run.version)
    detach(run, last)
    versions.append(run.version)
    (other,) = ControlConnection.objects.filter(run=run, is_live=True)
    ControlConnection.objects.update(presence_until=timezone.now() - timedelta(seconds=1))
    assert decide(controls.lapse(connection_id=other.pk), ring=silent)
    run.refresh_from_db()
    assert sorted({*versions, run.version}) == [*versions, run.version]


def test_a_second_detach_of_the_same_connection_is_ignored(owner):
    run = graced(owner)
    first = attach(run, owner)
    detach(run, first)
    again = attach(run, owner)
    assert detach(run, first) is False
    assert (run.control_count, run.grace_expires_at) == (1, None)
    assert detach(run, again) is True


def test_a_continue_run_gets_no_grace_when_its_page_goes(owner):
    run = a_run(owner)
    detach(run, attach(run, owner))
    assert run.grace_expires_at is None


def test_a_lapsed_connection_starts_the_grace_and_its_next_sign_of_life_clears_it(owner):
    run = graced(owner)
    attached = attach(run, owner)
    assert decide(controls.lapse(connection_id=attached.connection_id), ring=silent) is False
    past = timezone.now() - timedelta(seconds=1)
    ControlConnection.objects.filter(pk=attached.connection_id).update(presence_until=past)
    assert decide(controls.lapse(connection_id=attached.connection_id), ring=silent) is True
    run.refresh_from_db()
    assert (run.control_count, run.grace_expires_at is None) == (0, False)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is True
    run.refresh_from_db()
    assert (run.control_count, run.grace_expires_at) == (1, None)


def test_a_closed_connection_cannot_be_renewed(owner):
    run = graced(owner)
    attached = attach(run, owner)
    detach(run, attached)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is False


def test_a_run_that_is_stopping_takes_no_control_connection_and_gets_no_grace(owner):
    run = graced(owner)
    attached = attach(run, owner)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert attach(run, owner) is None
    detach(run, attached)
    assert Run.objects.get(pk=run.pk).grace_expires_at is None


def test_a_connection_that_had_lapsed_is_closed_by_the_end_of_its_run(owner):
    run = graced(owner)
    attached = attach(run, owner)
    ControlConnection.objects.update(presence_until=timezone.now() - timedelta(seconds=1))
    decide(controls.lapse(connection_id=attached.connection_id), ring=silent)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is False
    run.refresh_from_db()
    assert run.control_count == 0


def test_connections_are_numbered_within_their_run_and_live_for_their_presence(owner):
    run, other = a_run(owner), a_run(owner)
    assert [attach(one, owner).generation for one in (run, run, other)] == [1, 2, 1]
    left = ControlConnection.objects.first().presence_until - timezone.now()
    assert timedelta(0) < left <= timedelta(seconds=limits().presence_seconds)
    assert dict(Run.objects.values_list("pk", "control_count")) == {run.pk: 2, other.pk: 1}


def test_a_sign_of_life_prolongs_the_presence_and_counts_nobody_twice(owner):
    run = a_run(owner)
    attached = attach(run, owner)
    ControlConnection.objects.update(presence_until=timezone.now())
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is True
    assert ControlConnection.objects.get().presence_until > timezone.now() + timedelta(seconds=1)
    assert Run.objects.get(pk=run.pk).control_count == 1


def test_a_connection_lapses_once_and_its_detach_counts_nobody_again(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    first, _ = attach(run, owner), attach(run, owner)
    ControlConnection.objects.filter(pk=first.connection_id).update(presence_until=timezone.now())
    assert decide(controls.lapse(connection_id=first.connection_id), ring=silent) is True
    assert decide(controls.lapse(connection_id=first.connection_id), ring=silent) is False
    assert decide(controls.detach(connection_id=first.connection_id), ring=silent) is True
    run.refresh_from_db()
    assert (run.control_count, run.grace_expires_at) == (1, None)
    assert ControlConnection.objects.get(pk=first.connection_id).closed_at is not None


def test_the_grace_counts_from_the_loss(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=300.0)
    decide(controls.detach(connection_id=attach(run, owner).connection_id), ring=silent)
    left = Run.objects.get(pk=run.pk).grace_expires_at - timezone.now()
    assert timedelta(seconds=280) < left <= timedelta(seconds=300)


@pytest.mark.parametrize("act", [controls.renew_presence, controls.detach, controls.lapse])
def test_a_connection_that_never_was_is_no_error(db, act):
    assert decide(act(connection_id=new_id()), ring=silent) is False


def test_a_held_run_that_is_stopping_gets_no_grace_when_its_page_goes(owner):
    run = graced(owner)
    attached = attach(run, owner)
    a_claim(run)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert detach(run, attached) is True
    assert (run.control_count, run.grace_expires_at) == (0, None)


def fly(run, actor, **more):
    found = decide(controls.attach_pilot(run_id=run.pk, user_id=actor.user.pk, **more), ring=silent)
    run.refresh_from_db()
    return found


def test_only_one_pilot_is_in_control_until_another_one_takes_over(owner, teammate):
    """B48: the displaced one is counted no more, and neither its late word nor its departure changes anything."""
    run = graced(owner)
    first = fly(run, owner)
    assert fly(run, teammate) == controls.Held(first.generation, owner.user.pk)
    assert run.control_count == 1
    second = fly(run, teammate, takes_over=True)
    assert second.generation > first.generation
    assert (run.control_count, run.grace_expires_at) == (1, None)
    assert decide(controls.renew_presence(connection_id=first.connection_id), ring=silent) is False
    assert detach(run, first) is False
    assert (run.control_count, run.grace_expires_at) == (1, None)
    detach(run, second)
    assert run.grace_expires_at is not None


def test_a_tab_that_comes_back_displaces_itself_and_nobody_else(owner, teammate):
    run = graced(owner)
    first = fly(run, owner)
    again = fly(run, owner, had=first.generation)
    assert again.generation > first.generation
    assert isinstance(fly(run, owner, had=first.generation), controls.Held)
    assert isinstance(fly(run, teammate, had=again.generation), controls.Held)
    assert run.control_count == 1


def test_a_page_of_the_run_is_no_pilot_and_stays_when_pilots_change(owner, teammate):
    run = graced(owner)
    page = attach(run, owner)
    fly(run, owner)
    fly(run, teammate, takes_over=True)
    assert run.control_count == 2
    assert decide(controls.renew_presence(connection_id=page.connection_id), ring=silent) is True
    again = attach(run, owner)
    assert isinstance(fly(run, owner), controls.Held)
    detach(run, page)
    detach(run, again)
    assert run.control_count == 1


@pytest.mark.parametrize("is_noticed", [False, True])
def test_a_pilot_whose_presence_is_over_holds_nothing(owner, teammate, is_noticed):
    """Whether or not a supervisor has noticed, its grace is cleared and it cannot come back to life."""
    run = graced(owner)
    first = fly(run, owner)
    long_ago = timezone.now() - timedelta(seconds=1)
    ControlConnection.objects.filter(pk=first.connection_id).update(presence_until=long_ago)
    assert is_noticed is False or decide(controls.lapse(connection_id=first.connection_id), ring=silent)
    assert isinstance(fly(run, teammate), controls.Attached)
    assert decide(controls.lapse(connection_id=first.connection_id), ring=silent) is False
    assert decide(controls.renew_presence(connection_id=first.connection_id), ring=silent) is False
    run.refresh_from_db()
    assert (run.control_count, run.grace_expires_at) == (1, None)


def test_a_shell_that_is_stopping_takes_no_pilot(owner, teammate):
    """Nor one that takes over; whoever was in control stays counted until they leave."""
    run = graced(owner)
    a_claim(run)
    first = fly(run, owner)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    assert fly(run, owner, had=first.generation) is None
    assert fly(run, teammate, takes_over=True) is None
    assert (run.status, run.control_count) == ("cancel_requested", 1)
    detach(run, first)
    assert (run.control_count, run.grace_expires_at) == (0, None)
