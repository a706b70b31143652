"""A row of each table, by the real decisions where there are any, and runs in each kind of state."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from runs.access import Actor
from runs.auditing import audit
from runs.database import decide
from runs.decisions import cancels, controls, dispatch, endings, operations, waiting
from runs.ids import new_id
from runs.models import (
    ApiToken,
    Artifact,
    Checkpoint,
    Conversation,
    Document,
    NextMessage,
    Passage,
    Run,
    ShellTarget,
)
from runs.states import CancelReason, Status
from tests.builders import a_child, a_claim, a_dispatch, a_run, a_shell, silent


def make_rows(owner: Actor) -> dict[str, Any]:
    """Make them; returns their ids by name."""
    names = ("twin", "keyed", "held", "parent", "asleep", "stopping", "stopped", "done", "talking")
    runs = {name: a_run(owner, idempotency_key="k" if name == "keyed" else None) for name in names}
    fences = {name: a_claim(runs[name]) for name in ("held", "parent", "asleep", "stopping", "done")}
    child = a_child(runs["parent"], fences["parent"])
    sent = a_dispatch(runs["held"], fences["held"])
    ids = {"run_id": runs["held"].pk, "fence": fences["held"]}
    ask = waiting.ask(
        **ids, step=dispatch.StepCall("2", "ask", "ask", {}, "d"), question_id=new_id(), prompt="?", schema={},
        timeout_seconds=60.0,
    )  # fmt: skip
    sleep = waiting.wait(
        run_id=runs["asleep"].pk, fence=fences["asleep"], wakes=0, waiting_for="timer",
        wake_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip
    done = {"run_id": runs["done"].pk, "fence": fences["done"]}
    decide(ask, ring=silent)
    decide(sleep, ring=silent)
    decide(endings.finish_run(**done, status=Status.COMPLETED, result=1), ring=silent)
    for name in ("stopping", "stopped"):
        decide(cancels.request_cancel(run_id=runs[name].pk, reason=CancelReason.USER), ring=silent)
    assert sent.operation_id is not None
    proof: dict[str, Any] = {"kind": "receipt", "happened": True, "detail": {}}
    evidence = operations.record_evidence(operation_id=sent.operation_id, fence=fences["held"], **proof)
    shell = a_shell(owner)
    decide(controls.attach_pilot(run_id=shell.run_id, user_id=owner.user.pk), ring=silent)
    found = {name: run.pk for name, run in runs.items()} | {
        "child": child.pk,
        "evidence": decide(evidence, ring=silent),
    }
    found |= {"operation": sent.operation_id, "shell": shell.pk, "shell_run": shell.run_id}
    return found | {"stream": runs["done"].stream_id} | _make_others(owner, runs)


def _make_others(owner: Actor, runs: dict[str, Run]) -> dict[str, Any]:
    tenant, user = owner.tenant, owner.user
    audit(owner, "run.hold", "run_1", {})
    ApiToken.objects.create(tenant=tenant, user=user, name="t", digest="d")
    Artifact.objects.create(run=runs["held"], name="f", content_type="x", content=b"", size_bytes=0, sha256="0")
    Checkpoint.objects.create(stream_id=runs["held"].stream_id, seq=5, fold_version=1, view="{}", kept_bytes=9)
    talk = Conversation.objects.create(tenant=tenant, created_by=user)
    Run.objects.filter(pk=runs["talking"].pk).update(conversation=talk, turn=1)
    message = NextMessage.objects.create(
        conversation=talk, tenant=tenant, created_by=user, agent="chat", title="t", input={}, deadline_seconds=1.0,
        on_disconnect="continue", idempotency_key="k",
    )  # fmt: skip
    document = Document.objects.create(tenant=tenant, uploaded_by=user, name="a", size_bytes=1, sha256="0")
    Passage.objects.create(document=document, ordinal=1, text="x")
    target = ShellTarget.objects.create(tenant=tenant, name="here")
    target.people.add(user)
    return {"talk": talk.pk, "message": message.pk, "target": target.pk, "user": user.pk, "tenant": tenant.pk}
