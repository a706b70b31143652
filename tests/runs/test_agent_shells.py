"""The gate of an agent's keys: each of its conditions alone keeps the agent out."""

from uuid import UUID

import pytest

from runs.access import Actor
from runs.agent_shells import Asked, Place, may_type
from runs.database import decide
from runs.decisions import cancels, controls
from runs.models import Run, Shell
from runs.states import CancelReason
from tests.builders import an_agents_shell, silent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def shell(owner: Actor) -> Shell:
    return an_agents_shell(owner)


def place_of(shell: Shell) -> Place:
    parent = shell.run.parent_id
    assert isinstance(parent, UUID)
    return Place(shell.pk, shell.run_id, parent)


def fence_of(shell: Shell) -> int:
    return Run.objects.get(pk=shell.run.parent_id).fence


def asked(shell: Shell, later: int = 0) -> Asked:
    return may_type(place_of(shell), fence_of(shell) + later)


def stop(run_id: UUID) -> None:
    decide(cancels.request_cancel(run_id=run_id, reason=CancelReason.USER), ring=silent)


def test_its_own_claim_may_type(shell: Shell) -> None:
    assert asked(shell) == Asked(True, 0)


@pytest.mark.parametrize("later", [-1, 1])
def test_no_other_claim_may(shell: Shell, later: int) -> None:
    assert not asked(shell, later).may


def test_nothing_goes_into_a_shell_that_is_stopping(shell: Shell) -> None:
    """The agent closes it, or somebody stops it: the agent's own run goes on."""
    stop(shell.run_id)
    assert not asked(shell).may


def test_nor_does_a_claim_type_whose_run_waits(shell: Shell) -> None:
    """Also by the newest fence: nobody holds a run that waits."""
    waiting = {"status": "waiting", "waiting_for": "child", "lease_owner": None, "lease_until": None}
    Run.objects.filter(pk=shell.run.parent_id).update(**waiting, fence=fence_of(shell) + 1)
    assert not asked(shell).may


def test_nor_over_a_person(shell: Shell, owner: Actor) -> None:
    """The row alone says it; the newest generation is that beyond which the terminal lets nothing in."""
    taking = controls.attach_pilot(run_id=shell.run_id, user_id=owner.user.pk, takes_over=True)
    attached = decide(taking, ring=silent)
    assert isinstance(attached, controls.Attached)
    assert asked(shell) == Asked(False, attached.generation)
    Shell.objects.filter(pk=shell.pk).update(held_by=None)
    assert asked(shell) == Asked(True, attached.generation)
