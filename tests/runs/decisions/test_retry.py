"""A new attempt: what it takes a settled run for, what it leaves alone, and which key each call has in it."""

from typing import Any

import pytest

from runs import frames
from runs.database import decide
from runs.decisions import cancels, claims, dispatch, endings, operations, retry, waiting
from runs.decisions.lineage import is_committed
from runs.ids import new_id
from runs.models import Attempt, Event, Operation, OutboxRow, Run
from runs.states import CancelReason, Reuse, Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import expire, types_of


def wish(run: Run, **more: Any) -> retry.Wish:
    return retry.Wish(**({"run_id": run.pk, "user_id": run.created_by_id, "user_name": "owner"} | more))


def again(run: Run, **more: Any) -> retry.Retried | retry.NotRetried:
    return decide(retry.retry(wish(run, **more)), ring=silent)


def an_ended_run(owner: Any, **more: Any) -> Run:
    run = a_run(owner, **more)
    fence = a_claim(run)
    decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.FAILED, error_code="x"), ring=silent)
    run.refresh_from_db()
    return run


def a_run_that_sent(owner: Any, state: str = "succeeded", **sending: Any) -> tuple[Run, Operation]:
    """Make a run that has ended after one call whose outcome is this."""
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, **sending)
    an_outcome(run, fence, sent, state)
    decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.FAILED), ring=silent)
    run.refresh_from_db()
    return run, Operation.objects.get(pk=sent.operation_id)


def call(run: Run, fence: int, *, path: str = "1", key: str | None = None, digest: str = "d" * 64) -> Any:
    """Ask for the dispatch of the call that `a_dispatch` makes."""
    step = dispatch.StepCall(path, "tool", "create_invoice", {"cents": 1}, digest, "write")
    operation = dispatch.OperationCall(key or f"{run.pk.hex}:{path}", False, True, 0.0)
    return decide(
        dispatch.dispatch(run_id=run.pk, fence=fence, worker="w", step=step, nonce=new_id(), operation=operation),
        ring=silent,
    )


def test_a_settled_run_is_queued_again_with_nothing_of_the_attempt_before(owner):
    run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    a_claim(run)
    decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER, by=run.created_by_id), ring=silent)
    expire(run)
    decide(endings.end_cancel(run_id=run.pk), ring=silent)
    Run.objects.filter(pk=run.pk).update(deaths=3)  # what killed workers may be tried again by a person's word
    run.refresh_from_db()
    made = again(run, reason="wrong customer")
    fresh = Run.objects.get(pk=run.pk)
    assert made == retry.Retried(2, fresh.stream_id)
    assert (fresh.status, fresh.attempt, fresh.last_seq, fresh.terminal_at) == (Status.QUEUED, 2, 1, None)
    cancel = (fresh.cancel_id, fresh.cancel_reason, fresh.cancel_requested_at, fresh.cancel_effects)
    assert cancel == (None, None, None, None)
    assert (fresh.started_at, fresh.stop_deadline_at, fresh.wakes, fresh.control_count) == (None, None, 0, 0)
    assert fresh.deaths == 0
    assert fresh.deadline_at > run.deadline_at
    assert fresh.grace_expires_at is not None
    assert OutboxRow.objects.filter(run=run).count() == 1


def test_the_new_stream_begins_with_where_the_attempt_comes_from(owner):
    run = an_ended_run(owner)
    old_types = types_of(run)
    again(run, reason="once more", reuse=Reuse.NOTHING)
    run.refresh_from_db()
    event = Event.objects.get(stream_id=run.stream_id)
    frame = frames.decode(event.seq, event.data)
    assert (frame["seq"], frame["type"], frame["attempt"]) == (1, "attempt.created", 2)
    said = {name: frame["data"][name] for name in ("retry_of", "ended", "reason", "by", "reuse", "redo")}
    assert said == {
        "retry_of": 1, "ended": "failed", "reason": "once more", "by": "owner", "reuse": "nothing", "redo": [],
    }  # fmt: skip
    first, second = Attempt.objects.filter(run=run).order_by("number")
    assert (second.retry_of_id, second.created_by_id, second.reason) == (first.pk, run.created_by_id, "once more")
    assert list(Event.objects.filter(stream_id=first.pk).order_by("seq").values_list("type", flat=True)) == old_types


def test_the_fence_goes_on_growing(owner):
    """RULES H1: with a fence that began anew the worker of attempt 1 would hold the number of attempt 2's claim."""
    run = a_run(owner)
    stale = a_claim(run)
    decide(endings.finish_run(run_id=run.pk, fence=stale, status=Status.COMPLETED, result=1), ring=silent)
    again(run)
    fence = a_claim(run, "worker-b")
    assert fence > stale + 1
    assert decide(claims.renew(worker="worker-a", held={run.pk: stale}, lease_seconds=5), ring=silent) == {
        run.pk: "LOST"
    }
    late = endings.finish_run(run_id=run.pk, fence=stale, status=Status.COMPLETED, result=2)
    assert decide(late, ring=silent) == endings.NotEnded("lost")


@pytest.mark.parametrize("status", ["queued", "running", "waiting", "cancel_requested", "cancelling"])
def test_a_run_that_has_not_ended_is_not_retried(owner, status):
    run = a_run(owner)
    if status != "queued":
        fence = a_claim(run)
    if status == "waiting":
        decide(waiting.wait(run_id=run.pk, fence=fence, wakes=0, waiting_for="input"), ring=silent)
    if status.startswith("cancel"):
        decide(cancels.request_cancel(run_id=run.pk, reason=CancelReason.USER), ring=silent)
    if status == "cancelling":
        decide(claims.see_cancel(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    assert run.status == status
    assert again(run) == retry.NotRetried("not_settled")
    assert Run.objects.get(pk=run.pk).attempt == 1


def a_run_in_doubt(owner: Any) -> tuple[Run, Operation]:
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    run.refresh_from_db()
    return run, Operation.objects.get(pk=sent.operation_id)


def verdict(operation: Operation, happened: bool) -> None:
    operation.refresh_from_db()
    settled = operations.settle(
        operation_id=operation.pk, version=operation.version, happened=happened, source="verdict", detail={},
        override=True,
    )  # fmt: skip
    assert isinstance(decide(settled, ring=silent), operations.Settled)


def test_a_run_in_doubt_is_retried_only_once_it_is_settled(owner):
    """RULES H13: else what is not known yet would be done again."""
    run, operation = a_run_in_doubt(owner)
    assert again(run) == retry.NotRetried("not_settled")
    verdict(operation, True)
    assert isinstance(again(run), retry.Retried)


def test_a_contradicted_operation_bars_the_retry_until_it_was_looked_at(owner):
    run, operation = a_run_in_doubt(owner)
    verdict(operation, False)
    late = operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=True, detail={}
    )
    decide(late, ring=silent)
    assert again(run) == retry.NotRetried("contradicted", [operation.pk])


def test_a_version_that_has_moved_is_refused(owner):
    run = an_ended_run(owner)
    assert again(run, version=run.version - 1) == retry.NotRetried("stale")
    assert isinstance(again(run, version=run.version), retry.Retried)


def test_there_is_no_retry_of_what_is_not_there(owner):
    run = an_ended_run(owner)
    assert again(run, run_id=new_id()) == retry.NotRetried("missing")


def test_the_same_key_makes_one_attempt_also_while_that_one_runs(owner):
    run = an_ended_run(owner)
    first = again(run, idempotency_key="k", idempotency_digest="d")
    assert isinstance(first, retry.Retried)
    repeat = again(run, idempotency_key="k", idempotency_digest="d")
    assert repeat == retry.Retried(2, first.stream_id, is_new=False)
    assert again(run, idempotency_key="k", idempotency_digest="e") == retry.NotRetried("mismatch")
    assert again(run, idempotency_key="other") == retry.NotRetried("not_settled")


def test_a_key_belongs_to_who_sent_it(owner, teammate):
    run = an_ended_run(owner)
    again(run, idempotency_key="k", idempotency_digest="d")
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.FAILED), ring=silent)
    assert again(run, user_id=teammate.user.pk, idempotency_key="k").number == 3


def test_a_new_deadline_is_as_long_as_the_one_before_or_as_asked(owner):
    run = an_ended_run(owner, deadline_seconds=100.0)
    for asked, seconds in ((None, 100.0), (30.0, 30.0), (None, 30.0)):
        again(run, deadline_seconds=asked)
        run.refresh_from_db()
        begun = Attempt.objects.get(pk=run.stream_id).created_at
        assert (run.deadline_at - begun).total_seconds() == pytest.approx(seconds, abs=1.0)
        decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.FAILED), ring=silent)


# -- the ledger ------------------------------------------------------------------------------------------------------
def test_a_committed_call_is_not_sent_again_by_the_new_attempt(owner):
    run, operation = a_run_that_sent(owner)
    again(run)
    found = call(run, a_claim(run))
    assert isinstance(found, dispatch.InOperation)
    assert found.operation["id"] == operation.pk


@pytest.mark.parametrize("state", ["failed", "refuted"])
def test_a_call_that_did_not_happen_is_sent_again_under_its_key(owner, state):
    run, operation = a_run_that_sent(owner, state)
    step = operation.step_id
    again(run)
    fence = a_claim(run)
    assert call(run, fence) == dispatch.Dispatched(Operation.objects.get().step_id, operation.pk)
    operation.refresh_from_db()
    assert (operation.state, operation.fence, operation.step_id != step) == ("dispatched", fence, True)
    assert operation.step.attempt_id == Run.objects.get(pk=run.pk).stream_id


def test_a_refusal_in_the_same_attempt_is_final(owner):
    """Only another attempt may try again what was refused for certain."""
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "failed")
    assert isinstance(call(run, fence, path="1"), dispatch.InOperation)


def test_what_was_settled_by_a_verdict_begins_anew_without_it(owner):
    run, operation = a_run_in_doubt(owner)
    verdict(operation, False)
    again(run)
    call(run, a_claim(run))
    operation.refresh_from_db()
    assert (operation.settled_at, operation.settle_note, operation.receipt) == (None, "", None)


def test_a_late_receipt_keeps_the_call_from_being_sent_again(owner):
    """The receipt arrives after the retry and before the call: what was thought not to have happened did."""
    run, operation = a_run_in_doubt(owner)
    verdict(operation, False)
    again(run)
    late = operations.record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=True, detail={}
    )
    decide(late, ring=silent)
    assert isinstance(call(run, a_claim(run)), dispatch.InOperation)


def test_a_command_that_we_stopped_may_run_again(owner):
    run, operation = a_run_that_sent(owner, is_process=True)
    assert not is_committed(Operation.objects.filter(pk=operation.pk).values().get() | {"receipt": {"stopped": True}})
    Operation.objects.filter(pk=operation.pk).update(receipt={"stopped": True})
    again(run)
    assert isinstance(call(run, a_claim(run)), dispatch.Dispatched)


def test_a_call_at_another_place_inherits_a_committed_one_with_its_tool_and_arguments_once(owner):
    run, operation = a_run_that_sent(owner)
    again(run)
    fence = a_claim(run)
    found = call(run, fence, path="7")
    assert isinstance(found, dispatch.InOperation)
    assert found.operation["id"] == operation.pk
    Operation.objects.filter(pk=operation.pk).update(step=a_dispatch(run, fence, path="8", effect="read").step_id)
    assert isinstance(call(run, fence, path="9"), dispatch.Dispatched)


def test_a_call_with_other_arguments_inherits_nothing(owner):
    run, _ = a_run_that_sent(owner)
    again(run)
    assert isinstance(call(run, a_claim(run), path="7", digest="e" * 64), dispatch.Dispatched)


def test_in_the_first_attempt_two_equal_calls_are_two(owner):
    run = a_run(owner)
    fence = a_claim(run)
    an_outcome(run, fence, a_dispatch(run, fence), "succeeded")
    assert isinstance(call(run, fence, path="2"), dispatch.Dispatched)


# -- do it again -----------------------------------------------------------------------------------------------------
def keys_of(run: Run) -> dict[str, str] | None:
    run.refresh_from_db()
    return Attempt.objects.get(pk=run.stream_id).keys


def test_doing_it_again_gives_the_call_a_new_key_and_says_so(owner):
    run, operation = a_run_that_sent(owner)
    again(run, redo=[operation.pk])
    assert keys_of(run) == {operation.key: f"{operation.key}#redo-1"}
    event = Event.objects.get(stream_id=run.stream_id, type="attempt.created")
    assert [o["operation_key"] for o in frames.decode(1, event.data)["data"]["redo"]] == [operation.key]
    sent = call(run, a_claim(run), key=f"{operation.key}#redo-1")
    assert isinstance(sent, dispatch.Dispatched)
    assert sent.operation_id != operation.pk


def test_an_operation_that_is_done_again_is_inherited_by_no_other_call(owner):
    run, operation = a_run_that_sent(owner)
    again(run, redo=[operation.pk])
    assert isinstance(call(run, a_claim(run), path="7"), dispatch.Dispatched)


@pytest.mark.parametrize("state", ["failed", "refuted"])
def test_only_what_took_effect_is_done_again(owner, state):
    run, operation = a_run_that_sent(owner, state)
    assert again(run, redo=[operation.pk]) == retry.NotRetried("not_committed", [operation.pk])


def test_an_operation_of_another_run_is_not_done_again(owner):
    run, _ = a_run_that_sent(owner)
    _, foreign = a_run_that_sent(owner)
    assert again(run, redo=[foreign.pk]) == retry.NotRetried("not_committed", [foreign.pk])


def redone(state: str, key: str = "k", **more: Any) -> dict[str, Any]:
    return {"id": key, "key": key, "tool": "t", "state": state, "receipt": {}, "is_process": False} | more


def test_of_what_was_done_again_the_newest_committed_one_counts():
    tries = [redone("succeeded"), redone("succeeded", "k#redo-1"), redone("failed", "k#redo-2")]
    assert retry.choose_keys(tries, set()) == {"k": "k#redo-1"}
    assert retry.choose_keys(tries, {"k#redo-1"}) == {"k": "k#redo-3"}
    assert retry.choose_keys(tries[:1], set()) == {}
    assert retry.choose_keys([redone("refuted"), redone("refuted", "k#redo-1")], set()) == {"k": "k#redo-1"}


def test_the_tenth_time_comes_after_the_ninth():
    tries = [redone("succeeded", f"k#redo-{n}") for n in (10, 9)]
    assert retry.choose_keys(tries, set()) == {"k": "k#redo-10"}


# -- what is learnt later --------------------------------------------------------------------------------------------
def learn(operation: Operation, fence: int, happened: bool = True) -> Operation:
    evidence = operations.record_evidence(
        operation_id=operation.pk, fence=fence, kind="receipt", happened=happened, detail={"proof": "http 201"}
    )
    decide(evidence, ring=silent)
    operation.refresh_from_db()
    return operation


def late_receipts(run: Run) -> list[dict[str, Any]]:
    run.refresh_from_db()
    rows = Event.objects.filter(stream_id=run.stream_id, type="operation.late_receipt").order_by("seq")
    return [frames.decode(row.seq, row.data)["data"] for row in rows]


def test_a_late_receipt_is_told_in_the_current_stream_and_names_the_operation(owner):
    run, operation = a_run_in_doubt(owner)
    verdict(operation, False)
    old_stream = run.stream_id
    head = Event.objects.filter(stream_id=old_stream).count()
    again(run)
    learn(operation, operation.fence)
    (said,) = late_receipts(run)
    assert (said["operation_key"], said["decided"], said["happened"], said["proof"]) == (
        operation.key, "refuted", True, "http 201",
    )  # fmt: skip
    assert Event.objects.filter(stream_id=old_stream).count() == head
    learn(operation, operation.fence)
    assert len(late_receipts(run)) == 1  # it is flagged once


@pytest.mark.parametrize(("effect", "is_flagged"), [("write", True), ("idempotent", False)])
def test_a_receipt_of_a_call_that_was_sent_again_by_a_later_attempt(owner, effect, is_flagged):
    """A write may have happened twice; under an idempotent key both are one effect."""
    run, operation = a_run_that_sent(owner, "failed", effect=effect)
    first = operation.fence
    again(run)
    fence = a_claim(run)
    a_dispatch(run, fence, effect=effect)
    flagged = learn(operation, first).contradicted_at is not None
    assert (flagged, len(late_receipts(run)), operation.fence) == (is_flagged, int(is_flagged), fence)


def test_evidence_that_says_what_was_decided_tells_nothing(owner):
    run, operation = a_run_that_sent(owner)
    learn(operation, operation.fence)
    assert (operation.contradicted_at, late_receipts(run)) == (None, [])
