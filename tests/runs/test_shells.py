"""Opening, seeing, keeping and ending shells: what each role and target allows, and what is stored."""

from datetime import timedelta

import pytest
from django.utils import timezone

from runs import services, shells
from runs.access import Actor
from runs.database import decide
from runs.decisions import controls
from runs.errors import IdempotencyMismatch, InvalidInput, NotAllowed, NotFound
from runs.models import AuditEntry, OutboxRow, Run, Shell, ShellTarget
from runs.supervisor.sweeps import sweep_once
from tests.builders import a_claim, a_run, a_shell, a_tenant, an_actor, silent


def a_target(actor, **fields):
    return ShellTarget.objects.create(**({"tenant": actor.tenant, "name": "box"} | fields))


def test_a_shell_is_a_run_with_a_grace_and_a_row(owner):
    shell = a_shell(owner, rows=30, cols=100)
    run = shell.run
    assert (run.agent, run.status, run.on_disconnect, run.grace_seconds) == ("shell", "queued", "grace", 900.0)
    assert (shell.target, shell.command, shell.rows, shell.cols) == (None, "", 30, 100)
    assert run.input == {"target": "local", "command": "", "rows": 30, "cols": 100, "is_recorded": False}
    assert run.grace_expires_at is not None
    assert OutboxRow.objects.filter(run=run, kind="advance").exists()


def test_the_same_key_brings_back_the_same_shell(owner):
    first = shells.open_shell(actor=owner, idempotency_key="k")
    again = shells.open_shell(actor=owner, idempotency_key="k")
    assert (first.is_new, again.is_new, again.shell.pk) == (True, False, first.shell.pk)
    with pytest.raises(IdempotencyMismatch):
        shells.open_shell(actor=owner, idempotency_key="k", rows=5)
    assert Shell.objects.count() == Run.objects.count() == 1


def test_a_run_of_the_agent_without_its_shell_is_refused(owner):
    with pytest.raises(InvalidInput, match="shells"):
        services.create_run(actor=owner, agent="shell", input={})


@pytest.mark.parametrize(
    ("field", "wrong"),
    [("rows", 0), ("cols", 1001), ("rows", True), ("on_disconnect", "never"), ("command", "a\0b"), ("record", None)],
)
def test_what_cannot_be_is_named(owner, field, wrong):
    with pytest.raises(InvalidInput) as refusal:
        shells.open_shell(actor=owner, **({"is_recorded": True} if field == "record" else {field: wrong}))
    assert refusal.value.field == field
    assert not Run.objects.exists()


def test_a_target_says_what_runs_and_who_may(owner, operator, viewer):
    a_target(owner, commands=["htop", "top -b"], may_record=True)
    assert a_shell(owner, target="box", is_recorded=True).command == "htop"
    assert a_shell(owner, target="box", command="top -b").command == "top -b"
    with pytest.raises(InvalidInput, match="htop, top -b"):
        a_shell(owner, target="box", command="rm -r /")
    with pytest.raises(NotAllowed):
        a_shell(viewer, target="box")
    with pytest.raises(NotFound):
        a_shell(owner, target="nowhere")
    with pytest.raises(NotFound):
        a_shell(an_actor("far", a_tenant("far"), "admin"), target="box")


def test_a_target_lets_in_by_role_people_and_being_enabled(owner, operator):
    target = a_target(owner, min_role="operator")
    with pytest.raises(NotAllowed):
        a_shell(owner, target="box")
    shell = a_shell(operator, target="box")
    assert shells.may_pilot(operator, shell)
    target.people.add(owner.user)
    with pytest.raises(NotAllowed):
        a_shell(operator, target="box")
    assert not shells.may_pilot(operator, shells.get_shell(operator, shell.pk))
    target.people.add(operator.user)
    ShellTarget.objects.update(is_enabled=False)
    with pytest.raises(NotAllowed):
        a_shell(operator, target="box")
    assert shells.targets_of(operator) == [None]


def test_the_local_target_is_there_by_itself_and_can_be_replaced_or_switched_off(owner, settings):
    assert shells.targets_of(owner) == [None]
    settings.LOCAL_SHELL = False
    assert shells.targets_of(owner) == []
    with pytest.raises(NotFound):
        a_shell(owner)
    row = a_target(owner, name="local", commands=["top"])
    assert shells.targets_of(owner) == [row]
    assert a_shell(owner).command == "top"


def test_shells_of_others_are_watched_and_those_of_another_tenant_do_not_exist(owner, operator, viewer):
    shell, stranger = a_shell(owner), an_actor("far", a_tenant("far"), "admin")
    assert shells.get_shell(viewer, shell.pk) == shell
    for act in (shells.get_shell, lambda a, i: shells.terminate_shell(actor=a, shell_id=i)):
        with pytest.raises(NotFound):
            act(stranger, shell.pk)
    assert [shells.may_pilot(actor, shell) for actor in (owner, operator, viewer)] == [True, True, False]
    with pytest.raises(NotAllowed):
        shells.terminate_shell(actor=viewer, shell_id=shell.pk)
    assert not list(shells.visible_shells(stranger))


def test_a_token_needs_the_scopes_of_shells(owner):
    may = Actor(owner.user, owner.tenant, owner.role, frozenset({"shells:write", "shells:view"}))
    shell = a_shell(may)
    assert shells.get_shell(may, shell.pk)
    other = Actor(owner.user, owner.tenant, owner.role, frozenset({"runs:write", "runs:read"}))
    with pytest.raises(NotAllowed):
        a_shell(other)
    assert not shells.visible_shells(other).exists()


def test_ending_a_shell_is_the_stop_of_its_run(owner, operator):
    shell = a_shell(owner)
    ended = shells.terminate_shell(actor=operator, shell_id=shell.pk, note="away")
    assert (ended.run.status, ended.run.cancel_reason, ended.run.cancel_note) == ("cancelled", "user", "away")
    assert AuditEntry.objects.get().action == "shell.end"
    assert shells.terminate_shell(actor=operator, shell_id=shell.pk).run.cancel_note == "away"
    assert AuditEntry.objects.count() == 1


def test_its_row_is_closed_once_its_run_has_ended(owner):
    shell = a_shell(owner)
    sweep_once()
    shell.refresh_from_db()
    assert shell.ended_at is None
    shells.terminate_shell(actor=owner, shell_id=shell.pk)
    sweep_once()
    shell.refresh_from_db()
    assert shell.ended_at == Run.objects.get(pk=shell.run_id).terminal_at
    assert (shell.exit_code, shell.signal) == (None, None)


@pytest.mark.parametrize("name", ["\x00", "lo\x00cal", "x" * 5000, "nowhere"])
def test_a_target_that_cannot_be_is_not_found(owner, name):
    with pytest.raises(NotFound):
        a_shell(owner, target=name)


def test_keeping_moves_a_running_grace_and_never_to_an_earlier_time(owner, viewer):
    shell = a_shell(owner, on_disconnect={"grace_s": 60})
    in_an_hour = timezone.now() + timedelta(seconds=3590)
    kept = shells.keep_shell(actor=owner, shell_id=shell.pk, seconds=3600)
    assert kept.run.grace_expires_at > in_an_hour
    assert shells.keep_shell(actor=owner, shell_id=shell.pk, seconds=1).run.grace_expires_at > in_an_hour
    with pytest.raises(NotAllowed):
        shells.keep_shell(actor=viewer, shell_id=shell.pk, seconds=3600)
    for wrong in (0, -1, 86_401, float("nan"), True):
        with pytest.raises(InvalidInput):
            shells.keep_shell(actor=owner, shell_id=shell.pk, seconds=wrong)


def test_nothing_is_kept_of_a_shell_that_is_piloted_stopping_or_over(owner):
    shell = a_shell(owner)
    connection = decide(controls.attach(run_id=shell.run_id, user_id=owner.user.pk), ring=silent)
    assert shells.keep_shell(actor=owner, shell_id=shell.pk, seconds=3600).run.grace_expires_at is None
    decide(controls.detach(connection_id=connection.connection_id), ring=silent)
    a_claim(shell.run)
    asked = shells.terminate_shell(actor=owner, shell_id=shell.pk).run
    assert asked.status == "cancel_requested"
    assert (
        shells.keep_shell(actor=owner, shell_id=shell.pk, seconds=3600).run.grace_expires_at == asked.grace_expires_at
    )


def test_a_run_without_a_shell_is_no_shell(owner):
    with pytest.raises(NotFound):
        shells.get_shell(owner, a_run(owner).pk)
