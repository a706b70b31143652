"""Whose an agent's shell is: nobody's by accident, and the agent's again only by the hand of who has it."""

import pytest

from runs.database import decide
from runs.decisions import agent_shells, cancels, controls, endings, forcing, retry
from runs.models import Shell
from runs.states import CancelReason
from tests.builders import a_claim, a_shell_of, an_agents_shell, silent
from tests.races.two_actors import race
from tests.runs.decisions.test_claims import types_of


def fly(shell, actor, **more):
    return decide(controls.attach_pilot(run_id=shell.run_id, user_id=actor.user.pk, **more), ring=silent)


def hand_back(shell, actor):
    given = decide(agent_shells.hand_back(run_id=shell.run_id, user_id=actor.user.pk), ring=silent)
    shell.refresh_from_db()
    shell.run.refresh_from_db()
    return given


def test_nobody_is_in_control_but_by_taking_it_over(owner, teammate):
    shell = an_agents_shell(owner)
    assert fly(shell, owner) == controls.Held(0, None)
    first = fly(shell, owner, takes_over=True)
    decide(controls.detach(connection_id=first.connection_id), ring=silent)
    assert fly(shell, teammate) == controls.Held(0, owner.user.pk)
    assert isinstance(fly(shell, owner), controls.Attached)


def test_handing_it_back_leaves_nobody_in_control(owner):
    """Also where the window that was in control is another one than that which hands back."""
    shell = an_agents_shell(owner)
    attached = fly(shell, owner, takes_over=True)
    assert hand_back(shell, owner) is True
    assert (shell.held_by_id, shell.run.control_count) == (None, 0)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is False
    assert hand_back(shell, owner) is False


def test_nobody_else_hands_it_back(owner, teammate):
    shell = an_agents_shell(owner)
    attached = fly(shell, owner, takes_over=True)
    assert hand_back(shell, teammate) is False
    assert (shell.held_by_id, shell.run.control_count) == (owner.user.pk, 1)
    assert decide(controls.renew_presence(connection_id=attached.connection_id), ring=silent) is True


def test_the_run_above_is_told_once_however_often_its_taker_comes_back(owner):
    shell = an_agents_shell(owner)
    for _ in range(3):
        fly(shell, owner, takes_over=True)
    assert types_of(shell.run.parent).count("child.taken_over") == 1


def test_handing_back_what_has_ended_tells_a_run_that_has_ended_nothing(owner):
    """Its log is closed: nothing of the kind may follow its last event."""
    shell = an_agents_shell(owner)
    fly(shell, owner, takes_over=True)
    parent = shell.run.parent
    decide(forcing.force_stop(run_id=parent.pk, by=owner.user.pk), ring=silent)
    assert hand_back(shell, owner) is True
    assert types_of(parent)[-1] == "run.cancelled"


@pytest.mark.django_db(transaction=True)
def test_of_two_who_take_it_at_once_only_the_later_one_has_it(owner, operator):
    """Two take-overs: the second has sent its first statement before the first's commit."""
    shell = an_agents_shell(owner)
    takes = (
        controls.attach_pilot(run_id=shell.run_id, user_id=actor.user.pk, takes_over=True)
        for actor in (owner, operator)
    )
    first, second = race(*takes)
    assert first.generation < second.generation
    assert decide(controls.renew_presence(connection_id=first.connection_id), ring=silent) is False
    assert decide(controls.renew_presence(connection_id=second.connection_id), ring=silent) is True
    assert Shell.objects.get(pk=shell.pk).held_by == operator.user


@pytest.mark.django_db(transaction=True)
def test_whoever_comes_back_while_somebody_takes_it_from_them_watches(owner, operator):
    """A take-over and its former taker's return, who has read that it is theirs before the take-over's commit."""
    shell = an_agents_shell(owner)
    gone = fly(shell, owner, takes_over=True)
    decide(controls.detach(connection_id=gone.connection_id), ring=silent)
    taking = controls.attach_pilot(run_id=shell.run_id, user_id=operator.user.pk, takes_over=True)
    _, back = race(taking, controls.attach_pilot(run_id=shell.run_id, user_id=owner.user.pk))
    assert back == controls.Held(0, operator.user.pk)
    assert Shell.objects.get(pk=shell.pk).held_by == operator.user


def test_a_new_attempt_opens_a_shell_of_its_own(owner):
    """Another child would be tried again itself; the terminal of a shell is gone with what was in it."""
    first = an_agents_shell(owner)
    parent = first.run.parent
    decide(cancels.request_cancel(run_id=parent.pk, reason=CancelReason.USER), ring=silent)
    decide(endings.end_cancel(run_id=parent.pk, fence=parent.fence), ring=silent)
    again = retry.Wish(run_id=parent.pk, user_id=owner.user.pk, user_name="owner")
    assert isinstance(decide(retry.retry(again), ring=silent), retry.Retried)
    second = a_shell_of(parent, a_claim(parent))
    assert second.run_id != first.run_id
    assert Shell.objects.filter(run__parent=parent).count() == 2
