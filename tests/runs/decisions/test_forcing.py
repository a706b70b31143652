"""A forced stop in every state: it ends at once, guesses nothing, and leaves what was decided as it was."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide, fetch
from runs.decisions import claims, endings, forcing, steps, waiting
from runs.decisions.core import Bell
from runs.decisions.operations import record_evidence
from runs.frames import worker_bell
from runs.models import Event, Operation, OutboxRow, Question, Run
from runs.states import Status
from runs.supervisor.verification import verify_once
from tests.builders import a_child, a_claim, a_dispatch, a_run, an_outcome, silent
from tests.explore.invariants import READ_TREE, check_rows, check_tree
from tests.explore.scenes import asking, held, in_doubt, queued, sleeping
from tests.runs.decisions.test_cancels import stop, terminal_events
from tests.runs.decisions.test_claims import types_of


@pytest.fixture
def force(owner, operator):
    def end_now(run: Run, note: str = "enough") -> Any:
        answer = decide(forcing.force_stop(run_id=run.pk, by=operator.user.pk, note=note), ring=silent)
        run.refresh_from_db()
        _hold_invariants(run)
        return answer

    return end_now


def _hold_invariants(run: Run) -> None:
    trees = fetch(READ_TREE, {"run": run.pk})
    for rows in trees:
        check_rows(rows)
    check_tree(trees)


@pytest.mark.parametrize(
    ("scene", "more"),
    [(queued, {}), (held, {}), (sleeping, {}), (asking, {}), (asking, {"is_waiting": True}), (held, {"kind": "model"}),
     (held, {"kind": "read"}), (held, {"is_stopping": True}), (held, {"kind": "read", "is_stopping": True})],
)  # fmt: skip
def test_where_nothing_can_have_happened_outside_the_run_is_cancelled_at_once(owner, force, scene, more):
    run = scene(owner, **more)["run"]
    fence = Run.objects.get(pk=run.pk).fence
    answer = force(run)
    assert (answer.has_ended_it, run.status, run.lease_until) == (True, Status.CANCELLED, None)
    assert run.fence > fence
    assert run.cancel_reason == ("user" if more.get("is_stopping") else "operator")
    assert terminal_events(run) == ["run.cancelled"]
    assert types_of(run).count("run.stop_forced") == 1
    assert not Question.objects.filter(run=run, state="open").exists()
    assert not OutboxRow.objects.filter(run=run).exists()


@pytest.mark.parametrize("is_stopping", [False, True])
@pytest.mark.parametrize("effect", ["write", "idempotent"])
def test_what_was_sent_and_has_no_proof_is_unknown_and_in_the_queue(owner, force, effect, is_stopping):
    run = held(owner, kind=effect, is_stopping=is_stopping)["run"]
    answer = force(run)
    assert (answer.has_ended_it, answer.is_first, run.status) == (True, not is_stopping, "needs_reconciliation")
    assert [e["outcome"] for e in answer.effects] == ["unknown"]
    assert (run.open_ops, run.unknown_ops) == (0, 1)
    assert Operation.objects.get(run=run).next_look_up_at <= timezone.now()
    assert run.stop_deadline_at <= run.terminal_at


def test_a_run_that_its_holder_is_stopping_is_taken_from_it(owner, force):
    scene = held(owner, kind="write", is_stopping=True)
    run, fence, sent = scene["run"], scene["fence"], scene["sent"]
    decide(claims.see_cancel(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    assert run.status == Status.CANCELLING
    assert force(run).has_ended_it
    late = steps.OperationOutcome("succeeded", {"proof": "late"}, gave_up=True)
    written = steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, state="finished", outcome=late)
    assert isinstance(decide(written, ring=silent), claims.Lost)
    assert decide(claims.renew(worker="worker-a", held={run.pk: fence}, lease_seconds=5)) == {run.pk: "LOST"}
    run.refresh_from_db()
    assert run.status == Status.NEEDS_RECONCILIATION


def test_a_receipt_that_is_stored_as_evidence_decides(owner, force):
    scene = held(owner, kind="write")
    run, sent = scene["run"], scene["sent"]
    receipt = {"operation_id": sent.operation_id, "fence": scene["fence"], "kind": "receipt", "happened": True}
    decide(record_evidence(**receipt, detail={"proof": "http 201"}), ring=silent)
    assert [e["outcome"] for e in force(run).effects] == ["committed"]
    assert run.status == Status.CANCELLED


def test_a_receipt_that_comes_after_it_settles_the_run(owner, force):
    scene = held(owner, kind="write")
    run, sent = scene["run"], scene["sent"]
    force(run)
    receipt = {"operation_id": sent.operation_id, "fence": scene["fence"], "kind": "receipt", "happened": True}
    decide(record_evidence(**receipt, detail={"proof": "http 201"}), ring=silent)
    assert verify_once() == 1
    run.refresh_from_db()
    assert (run.status, terminal_events(run)) == (Status.CANCELLED, ["run.needs_reconciliation"])


def test_an_outcome_that_is_unknown_already_stays_so(owner, force):
    run = in_doubt(owner, ended=False)["run"]
    force(run)
    assert (run.status, run.unknown_ops) == (Status.NEEDS_RECONCILIATION, 1)


def test_what_has_an_outcome_is_left_as_it_is(owner, force):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "succeeded")
    stop(run)
    assert [e["outcome"] for e in force(run).effects] == ["committed"]
    assert run.status == Status.CANCELLED


def test_after_the_end_nothing_changes_and_again_it_is_the_same_answer(owner, force):
    run = held(owner, kind="write")["run"]
    first = force(run)
    before = (run.version, run.last_seq, run.fence, run.cancel_note, run.stop_deadline_at)
    again = force(run, "another note")
    assert (again.has_ended_it, again.is_first, again.too_late) == (False, False, False)
    assert again.effects == first.effects
    assert (run.version, run.last_seq, run.fence, run.cancel_note, run.stop_deadline_at) == before


def test_a_run_that_ended_by_itself_keeps_its_end(owner, force):
    run = a_run(owner)
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result=1), ring=silent)
    run.refresh_from_db()
    version = run.version
    answer = force(run)
    assert (answer.has_ended_it, answer.too_late) == (False, True)
    assert (run.status, run.version, run.cancel_id) == (Status.COMPLETED, version, None)


def test_the_first_reason_and_its_note_stay(owner, force):
    run = held(owner)["run"]
    stop(run, note="mine")
    force(run, "theirs")
    assert (run.cancel_reason, run.cancel_note) == ("user", "mine")
    forced = Event.objects.get(stream_id=run.stream_id, type="run.stop_forced")
    assert '"note":"theirs"' in forced.data.replace(": ", ":")


def test_a_stop_deadline_that_has_passed_stays(owner, force):
    run = held(owner, is_stopping=True)["run"]
    past = timezone.now() - timedelta(seconds=30)
    Run.objects.filter(pk=run.pk).update(stop_deadline_at=past)
    force(run)
    assert run.stop_deadline_at == past


def test_a_tree_ends_leaves_first_and_its_doubt_reaches_the_top(owner, force):
    run = a_run(owner)
    fence = a_claim(run)
    busy, idle = a_child(run, fence, "1"), a_child(run, fence, "2")
    child_fence = a_claim(busy, "worker-b")
    leaf = a_child(busy, child_fence, "1")
    a_dispatch(leaf, a_claim(leaf, "worker-c"), worker="worker-c")
    decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="child"), ring=silent)
    answer = force(run)
    assert answer.has_ended_it
    found = {r.pk: r for r in Run.objects.all()}
    doubt = Status.NEEDS_RECONCILIATION
    assert [found[r.pk].status for r in (run, busy, leaf, idle)] == [doubt, doubt, doubt, Status.CANCELLED]
    assert [found[r.pk].cancel_reason for r in (run, busy, leaf, idle)] == ["operator", *["parent"] * 3]
    assert found[leaf.pk].terminal_at < found[busy.pk].terminal_at < found[run.pk].terminal_at
    assert not OutboxRow.objects.exists()


def test_a_child_that_has_ended_and_was_not_counted_is_counted(owner, force):
    run = a_run(owner)
    fence = a_claim(run)
    child = a_child(run, fence)
    decide(endings.finish_run(run_id=child.pk, fence=a_claim(child), status=Status.COMPLETED), ring=silent)
    assert [e["outcome"] for e in force(run).effects] == ["finished_first"]
    assert (run.status, run.open_children) == (Status.CANCELLED, 0)


def test_a_parent_of_a_child_that_was_forced_hears_of_it_by_the_outbox(owner, force):
    run = a_run(owner)
    child = a_child(run, a_claim(run))
    force(child)
    run.refresh_from_db()
    assert (run.status, run.open_children) == (Status.RUNNING, 1)
    assert OutboxRow.objects.filter(run=child, kind="child").exists()


@pytest.mark.django_db(transaction=True)  # bells ring after a real commit
def test_whoever_holds_the_run_or_what_is_below_it_is_told_at_once(owner, operator):
    """They end what they run; nobody is told who holds nothing any more."""
    run = a_run(owner)
    fence = a_claim(run)
    a_claim(a_child(run, fence, "1"), "worker-b")
    gone = a_child(run, fence, "2")
    a_claim(gone, "worker-c", lease_seconds=-1.0)
    bells: list[Any] = []
    decide(forcing.force_stop(run_id=run.pk, by=operator.user.pk), ring=bells.extend)
    rung = {bell.channel for bell in bells if isinstance(bell, Bell)}
    channels = [worker_bell(f"worker-{letter}", run.pk)[0] for letter in "abc"]
    assert [channel in rung for channel in channels] == [True, True, False]


def test_there_is_no_such_run(owner, operator):
    assert decide(forcing.force_stop(run_id=owner.tenant.pk, by=operator.user.pk)) is None
