"""Builders: a tenant, people, and runs in any state, made through the real decisions wherever one exists."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model

from runs.access import Actor
from runs.database import decide
from runs.decisions import children, claims, creation, dispatch, steps
from runs.decisions.shells import NewShell
from runs.frames import Origin
from runs.ids import new_id
from runs.models import Membership, Role, Run, Shell, Tenant
from runs.shells import open_shell


def a_tenant(slug: str) -> Tenant:
    """Make a tenant, or return the one that is there."""
    return Tenant.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def an_actor(name: str, tenant: Tenant, role: str, **user_fields: Any) -> Actor:
    """Make a person with a role in a tenant."""
    user = get_user_model().objects.create_user(name, f"{name}@example.invalid", "a long password 1", **user_fields)
    Membership.objects.create(tenant=tenant, user=user, role=role)
    return Actor(user, tenant, Role(role))


def a_run(actor: Actor, **changes: Any) -> Run:
    """Make a queued run. Changes: any field of creation.NewRun."""
    fields: dict[str, Any] = {
        "tenant_id": actor.tenant.pk, "user_id": actor.user.pk, "agent": "probe", "title": "a run", "input": {},
        "metadata": {}, "deadline_seconds": 600.0, "on_disconnect": "continue", "grace_seconds": None,
        "idempotency_key": None, "idempotency_digest": None,
    }  # fmt: skip
    row = decide(creation.create(creation.NewRun(**(fields | changes))), ring=silent)
    assert row is not None
    return Run.objects.get(pk=row["id"])


def a_shell(actor: Actor, **changes: Any) -> Shell:
    """Open a shell; its run is queued. Changes: any argument of runs.shells.open_shell."""
    return open_shell(actor=actor, **changes).shell


def an_agents_shell(actor: Actor) -> Shell:
    """Open a shell as an agent does: its run is a queued child of a claimed one."""
    run = a_run(actor)
    return a_shell_of(run, a_claim(run))


def a_shell_of(run: Run, fence: int) -> Shell:
    """Open a shell at the first step of a claimed run, as its agent does."""
    step = dispatch.StepCall("1", "child", "shell", {}, "c" * 64)
    child = creation.NewRun(
        tenant_id=run.tenant_id, user_id=run.created_by_id, agent="shell", title="local", input={}, metadata={},
        deadline_seconds=600.0, on_disconnect="continue", grace_seconds=None, idempotency_key=None,
        idempotency_digest=None,
    )  # fmt: skip
    shell = NewShell(target_id=None, command="", rows=24, cols=80, opened_by="agent", is_recorded=False)
    spawning = children.spawn(run_id=run.pk, fence=fence, root_id=None, step=step, child=child, shell=shell)
    spawned = decide(spawning, ring=silent)
    assert isinstance(spawned, children.Spawned), spawned
    return Shell.objects.select_related("run").get(run=spawned.child_id)


def silent(effects: Any) -> None:
    """Ring nothing: the lost doorbell is the usual case in a test."""


def a_claim(run: Run, worker: str = "worker-a", lease_seconds: float = 600.0) -> int:
    """Claim a run and return the fence."""
    claimed = decide(claims.claim(run_id=run.pk, worker=worker, lease_seconds=lease_seconds), ring=silent)
    assert isinstance(claimed, claims.Claimed), claimed
    return claimed.fence


@dataclass(frozen=True)
class Sent:
    """A dispatched call."""

    step_id: UUID
    operation_id: UUID | None
    nonce: UUID


def a_dispatch(
    run: Run, fence: int, *, path: str = "1", kind: str = "tool", effect: str | None = "write", key: str | None = None,
    bound: float = 0.0, is_process: bool = False, worker: str = "worker-a",
) -> Sent:  # fmt: skip
    """Dispatch a call; one with an effect (not read) gets a ledger row under `key`."""
    call = dispatch.StepCall(path, kind, "create_invoice" if kind == "tool" else "local", {"cents": 1}, "d" * 64,
                             effect if kind == "tool" else None)  # fmt: skip
    operation = None
    if kind == "tool" and effect != "read":
        operation = dispatch.OperationCall(key or f"{run.pk.hex}:{path}", is_process, True, bound)
    nonce = new_id()
    sent = decide(
        dispatch.dispatch(
            run_id=run.pk, fence=fence, worker=worker, step=call, nonce=nonce, operation=operation,
            message_id=new_id() if kind == "model" else None,
            origin=Origin(run.pk, run.attempt, run.stream_id),
        ),
        ring=silent,
    )  # fmt: skip
    assert isinstance(sent, dispatch.Dispatched), sent
    return Sent(sent.step_id, sent.operation_id, nonce)


def an_outcome(run: Run, fence: int, sent: Sent, state: str, *, gave_up: bool = True) -> Any:
    """Record how an operation went: succeeded | failed | unknown | refuted."""
    outcome = steps.OperationOutcome(state, {"proof": "test"}, gave_up=gave_up)
    return decide(
        steps.finish_step(
            run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished" if state == "succeeded" else "failed",
            outcome=outcome,
        ),
        ring=silent,
    )  # fmt: skip


def a_spawn(run: Run, fence: int, path: str = "1", digest: str = "c" * 64, **changes: Any) -> Any:
    """Ask for a child run, as the holder of the fence does. Changes: any field of creation.NewRun."""
    fields: dict[str, Any] = {
        "tenant_id": run.tenant_id, "user_id": run.created_by_id, "agent": "probe", "title": "a child", "input": {},
        "metadata": {}, "deadline_seconds": 600.0, "on_disconnect": "continue", "grace_seconds": None,
        "idempotency_key": None, "idempotency_digest": None,
    }  # fmt: skip
    step = dispatch.StepCall(path, "child", "probe", {"input": {}}, digest)
    child = creation.NewRun(**(fields | changes))
    return decide(children.spawn(run_id=run.pk, fence=fence, root_id=run.root_id, step=step, child=child), ring=silent)


def a_child(run: Run, fence: int, path: str = "1", **changes: Any) -> Run:
    """Begin a child of a claimed run."""
    spawned = a_spawn(run, fence, path, **changes)
    assert isinstance(spawned, children.Spawned), spawned
    return Run.objects.get(pk=spawned.child_id)
