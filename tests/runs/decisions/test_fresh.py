"""The one-statement claim and dispatch: only the usual case takes them, and every other case comes out alike."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs import frames
from runs.database import decide
from runs.decisions import cancels, claims, dispatch, steps
from runs.decisions.dispatch import StepCall
from runs.errors import RuleBroken
from runs.frames import Origin
from runs.ids import new_id
from runs.models import Event, Run, Step
from runs.states import CancelReason, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def begin(run: Run, fence: int, *, kind: str = "model", path: str = "1") -> Any:
    step = StepCall(path, kind, "local", {"a": 1}, "d" * 64, "read" if kind == "tool" else None)
    return decide(
        dispatch.dispatch(
            run_id=run.pk, fence=fence, worker="worker-a", step=step, nonce=new_id(), shown={"model": "m"},
            message_id=new_id() if kind == "model" else None, origin=Origin(run.pk, run.attempt, run.stream_id),
        ),
        ring=silent,
    )  # fmt: skip


def test_a_first_claim_reads_in_its_events_as_any_other(owner):
    run = a_run(owner)
    a_claim(run)
    assert types_of(run) == ["run.created", "claim.started", "run.started"]
    for row in Event.objects.filter(stream_id=run.stream_id):
        frame = frames.decode(row.seq, row.data)
        assert (frame["stream_id"], frame["attempt"], frame["type"]) == (f"st_{run.stream_id.hex}", 1, row.type)


@pytest.mark.parametrize("row", [{"fence": 3}, {"status": "running"}])
def test_a_claim_that_is_not_the_very_first_takes_the_long_way(owner, row):
    """A queued run of a later attempt has a fence; one that was woken is running without a claim."""
    run = a_run(owner)
    Run.objects.filter(pk=run.pk).update(**row)
    fence = a_claim(run)
    run.refresh_from_db()
    assert fence == row.get("fence", 0) + 1
    assert ("run.started" in types_of(run)) == ("status" not in row)
    last = Event.objects.filter(stream_id=run.stream_id).order_by("seq").last()
    assert frames.decode(last.seq, last.data)["attempt"] == run.attempt


@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_first_call_is_counted_stored_and_told(owner, kind):
    run, other = a_run(owner), a_run(owner)
    fence = a_claim(run)
    a_claim(other)
    sent = begin(run, fence, kind=kind)
    run.refresh_from_db()
    step = Step.objects.get(pk=sent.step_id)
    assert (run.open_ops, step.state, step.kind, step.fence, step.arguments) == (1, "open", kind, fence, {"a": 1})
    assert (step.message_id is not None) == (kind == "model")
    told = ["model.started", "text.start"] if kind == "model" else ["tool.started"]
    assert types_of(run)[3:] == ["step.started", *told]
    assert Run.objects.get(pk=other.pk).open_ops == 0


REFUSED = {
    "lost": lambda run, fence: (expire(run), a_claim(run, "worker-b")),
    "cancel": lambda run, fence: decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent),
    "deadline": lambda run, fence: Run.objects.filter(pk=run.pk).update(
        deadline_at=timezone.now() - timedelta(seconds=1)
    ),
    "unknown_open": lambda run, fence: an_outcome(run, fence, a_dispatch(run, fence, path="9"), "unknown"),
}


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_call_that_must_not_begin_is_refused_as_on_the_long_way(owner, kind, reason):
    run = a_run(owner)
    fence = a_claim(run)
    REFUSED[reason](run, fence)
    assert begin(run, fence, kind=kind) == dispatch.Refused(reason)
    assert not Step.objects.filter(run=run, path="1").exists()


def test_a_run_without_a_deadline_begins_its_calls(owner):
    run = a_run(owner)
    Run.objects.filter(pk=run.pk).update(deadline_at=None)
    assert isinstance(begin(run, a_claim(run)), dispatch.Dispatched)


def test_a_path_that_is_in_use_takes_the_long_way(owner):
    run = a_run(owner)
    fence = a_claim(run)
    first = begin(run, fence)
    with pytest.raises(RuleBroken):
        begin(run, fence)
    done = steps.finish_step(run_id=run.pk, fence=fence, step_id=first.step_id, state="failed")
    decide(done, ring=silent)
    assert begin(run, fence) == first
    run.refresh_from_db()
    assert (run.open_ops, run.status) == (1, Status.RUNNING)
    assert isinstance(decide(claims.release(run_id=run.pk, fence=fence), ring=silent), claims.Lost)
