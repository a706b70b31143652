"""The commands as their callers see them: rights, idempotency, lateness, and what a refusal leaves behind."""

import pytest

from runs import services
from runs.database import decide
from runs.decisions import endings, waiting
from runs.decisions.dispatch import StepCall
from runs.decisions.operations import record_evidence
from runs.errors import (
    HasReceipt,
    IdempotencyMismatch,
    InvalidInput,
    NotAllowed,
    NotFound,
    NotYet,
    StaleVersion,
    TooLate,
    UnknownAgent,
)
from runs.ids import new_id
from runs.models import AuditEntry, Operation, Question, Run
from runs.states import Status
from tests.builders import a_claim, a_dispatch, a_run, an_outcome, silent


def create(actor, **more):
    return services.create_run(actor=actor, **({"agent": "chat", "input": {"prompt": "hello"}} | more))


def ask(run, schema=None):
    question = new_id()
    step = StepCall("1", "ask", "ask", {}, "d" * 64)
    decide(
        waiting.ask(
            run_id=run.pk, fence=a_claim(run), step=step, question_id=question, prompt="Send it?",
            schema=schema or {"type": "boolean"}, timeout_seconds=60,
        ),
        ring=silent,
    )  # fmt: skip
    return question


def test_a_new_run_takes_its_agents_policy_and_title_from_its_input(owner):
    run = create(owner).run
    assert (run.status, run.title, run.on_disconnect, run.grace_seconds) == (Status.QUEUED, "hello", "grace", 5.0)


def test_the_same_key_and_body_bring_back_the_same_run(owner):
    first = create(owner, idempotency_key="k")
    again = create(owner, idempotency_key="k")
    assert (first.is_new, again.is_new, first.run.pk == again.run.pk) == (True, False, True)
    assert Run.objects.count() == 1


def test_the_same_key_with_another_body_is_refused(owner):
    create(owner, idempotency_key="k")
    with pytest.raises(IdempotencyMismatch):
        create(owner, idempotency_key="k", input={"prompt": "other"})


def test_a_key_belongs_to_its_caller(owner, teammate):
    assert create(owner, idempotency_key="k").run.pk != create(teammate, idempotency_key="k").run.pk


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("agent", {"agent": "nobody"}),
        ("input.prompt", {"input": {"prompt": ""}}),
        ("input.prompt", {"input": {"prompt": "a\x00b"}}),
        ("input.prompt", {"input": {"prompt": "\ud800"}}),
        ("input.prompt", {"input": {"prompt": True}}),
        ("deadline_s", {"deadline_seconds": 0}),
        ("deadline_s", {"deadline_seconds": float("nan")}),
        ("deadline_s", {"deadline_seconds": True}),
        ("deadline_s", {"deadline_seconds": 10**9}),
        ("on_disconnect", {"on_disconnect": "never"}),
        ("on_disconnect", {"on_disconnect": {"grace_s": -1}}),
        ("title", {"title": "x" * 201}),
        ("title", {"title": "a\x00"}),
        ("metadata", {"metadata": {"a": "x" * 20_000}}),
        ("metadata", {"metadata": ["list"]}),
    ],
)
def test_bad_input_names_its_field_and_makes_nothing(owner, field, body):
    with pytest.raises(InvalidInput) as refused:
        create(owner, **body)
    assert refused.value.field == field
    assert not Run.objects.exists()


def test_an_unknown_agent_is_told_which_are_known(owner):
    with pytest.raises(UnknownAgent, match="researcher"):
        create(owner, agent="nobody")


def test_a_viewer_can_neither_start_nor_stop(owner, viewer):
    run = a_run(owner)
    with pytest.raises(NotAllowed):
        create(viewer)
    with pytest.raises(NotAllowed):
        services.cancel_run(actor=viewer, run_id=run.pk)


def test_a_runner_stops_their_own_runs_and_an_operator_everybodys(owner, teammate, operator):
    run = a_run(owner)
    with pytest.raises(NotAllowed):
        services.cancel_run(actor=teammate, run_id=run.pk)
    assert services.cancel_run(actor=operator, run_id=run.pk, note="too costly").is_first
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.user) == ("run.stop", operator.user)


def test_an_outsider_is_told_that_there_is_no_such_run(owner, outsider):
    run = a_run(owner)
    for call in (
        lambda: services.cancel_run(actor=outsider, run_id=run.pk),
        lambda: services.answer_question(actor=outsider, run_id=run.pk, question_id=new_id(), value=1),
        lambda: services.attach_control(actor=outsider, run_id=run.pk),
    ):
        with pytest.raises(NotFound):
            call()


def test_twenty_stops_make_one_receipt(owner):
    run = a_run(owner)
    a_claim(run)
    receipts = [services.cancel_run(actor=owner, run_id=run.pk) for _ in range(20)]
    assert [r.is_first for r in receipts] == [True] + [False] * 19
    assert len({r.run.cancel_id for r in receipts}) == 1


def test_a_stop_after_the_end_says_that_it_came_too_late(owner):
    run = a_run(owner)
    decide(endings.finish_run(run_id=run.pk, fence=a_claim(run), status=Status.COMPLETED, result=1), ring=silent)
    receipt = services.cancel_run(actor=owner, run_id=run.pk)
    assert (receipt.too_late, receipt.run.status) == (True, Status.COMPLETED)


def test_the_same_answer_again_is_fine_and_another_one_is_too_late(owner):
    run = a_run(owner)
    question = ask(run)
    assert services.answer_question(actor=owner, run_id=run.pk, question_id=question, value=True)[1] is True
    assert services.answer_question(actor=owner, run_id=run.pk, question_id=question, value=True)[1] is False
    with pytest.raises(TooLate) as late:
        services.answer_question(actor=owner, run_id=run.pk, question_id=question, value=False)
    assert late.value.details["accepted"] is True


@pytest.mark.parametrize("value", ["yes", 1, None, {"a": "\x00"}, float("nan")])
def test_an_answer_that_does_not_fit_its_question_leaves_it_open(owner, value):
    run = a_run(owner)
    question = ask(run)
    with pytest.raises(InvalidInput) as refused:
        services.answer_question(actor=owner, run_id=run.pk, question_id=question, value=value)
    assert refused.value.field.startswith("value")
    assert Question.objects.get(pk=question).state == "open"


def unknown_operation(owner, **more):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, **more)
    an_outcome(run, fence, sent, "unknown")
    decide(endings.park(run_id=run.pk, fence=fence), ring=silent)
    return Operation.objects.get(pk=sent.operation_id)


def settle(actor, operation, **more):
    fields = {"version": operation.version, "outcome": "happened", "note": "seen in the ledger of the bank"} | more
    return services.settle_operation(actor=actor, operation_id=operation.pk, **fields)


def test_an_operator_settles_with_a_note_and_it_is_audited(owner, operator):
    operation = unknown_operation(owner)
    settled = settle(operator, operation)
    assert (settled.state, settled.settled_by, settled.run.status) == ("confirmed", operator.user, Status.FAILED)
    assert AuditEntry.objects.filter(action="operation.settle").count() == 1


def test_settling_needs_the_role_a_note_the_version_and_the_horizon(owner, operator, outsider):
    operation = unknown_operation(owner, bound=3600.0)
    with pytest.raises(NotAllowed):
        settle(owner, operation)
    with pytest.raises(NotFound):
        settle(outsider, operation)
    with pytest.raises(InvalidInput):
        settle(operator, operation, note="  ")
    with pytest.raises(InvalidInput):
        settle(operator, operation, outcome="perhaps")
    with pytest.raises(StaleVersion):
        settle(operator, operation, version=operation.version - 1)
    with pytest.raises(NotYet):
        settle(operator, operation, outcome="not_happened")
    receipt = record_evidence(
        operation_id=operation.pk, fence=operation.fence, kind="receipt", happened=True, detail={"proof": "http 201"}
    )
    decide(receipt)
    operation.refresh_from_db()
    with pytest.raises(HasReceipt):
        settle(operator, operation, outcome="not_happened", override=True)
    operation.refresh_from_db()
    assert operation.state == "unknown"
