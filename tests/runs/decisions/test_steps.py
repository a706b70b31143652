"""The end of a step: counted once, said once, and never without the outcome of its operation."""

from typing import Any

import pytest

from runs.database import decide
from runs.decisions import dispatch, steps
from runs.decisions.dispatch import StepCall
from runs.errors import RuleBroken
from runs.ids import new_id
from runs.models import Operation, Run, Step
from tests.builders import Sent, a_claim, a_dispatch, a_run, an_outcome, silent
from tests.runs.decisions.test_claims import types_of


def finish(run: Run, fence: int, sent: Sent, **how: Any) -> Any:
    fields = {"state": "finished"} | how
    return decide(steps.finish_step(run_id=run.pk, fence=fence, step_id=sent.step_id, **fields), ring=silent)


@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_call_that_is_finished_again_is_neither_counted_nor_said_again(owner, kind):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, kind=kind, effect="read")
    other = a_dispatch(run, fence, path="2", kind="model")
    usage = {"input_tokens": 3, "output_tokens": 5}
    for state in ("finished", "failed"):
        assert finish(run, fence, sent, state=state, result="r", usage=usage) == steps.Done(None)
    run.refresh_from_db()
    step = Step.objects.get(pk=sent.step_id)
    assert (step.state, step.result, run.open_ops) == ("finished", {"value": "r"}, 1)
    assert (run.input_tokens, run.output_tokens) == (3, 5)
    assert types_of(run).count("step.finished") == 1
    assert finish(run, fence, other) == steps.Done(None)
    assert Run.objects.get(pk=run.pk).open_ops == 0


@pytest.mark.parametrize("then", ["unknown", "succeeded", "failed", "refuted"])
def test_an_operation_that_is_unknown_is_not_ended_by_its_holder_again(owner, then):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    assert an_outcome(run, fence, sent, "unknown") == steps.Done("unknown")
    assert an_outcome(run, fence, sent, then) == steps.Done("unknown")
    run.refresh_from_db()
    assert (run.open_ops, run.unknown_ops) == (0, 1)
    assert Operation.objects.get(pk=sent.operation_id).state == "unknown"
    assert Step.objects.get(pk=sent.step_id).state == "open"
    assert types_of(run).count("tool.unknown") == 1


def test_a_step_cannot_end_while_its_operation_has_no_outcome(owner):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence)
    with pytest.raises(RuleBroken):
        finish(run, fence, sent)
    assert Run.objects.get(pk=run.pk).open_ops == 1


@pytest.mark.parametrize("kind", ["model", "tool"])
def test_a_call_that_is_under_way_is_not_begun_a_second_time(owner, kind):
    run = a_run(owner)
    fence = a_claim(run)
    a_dispatch(run, fence, kind=kind, effect="read")
    with pytest.raises(RuleBroken):
        a_dispatch(run, fence, kind=kind, effect="read")
    run.refresh_from_db()
    assert run.open_ops == 1


def test_a_call_that_failed_is_begun_again_at_its_path(owner):
    run = a_run(owner)
    fence = a_claim(run)
    finish(run, fence, a_dispatch(run, fence, kind="model"), state="failed", error={"code": "overloaded"})
    again = a_dispatch(run, fence, kind="model")
    step = Step.objects.get(pk=again.step_id)
    assert (step.state, step.error, step.finished_at) == ("open", None, None)


@pytest.mark.parametrize("change", [{"digest": "e" * 64}, {"kind": "model", "effect": None}])
def test_a_path_stands_for_one_call_for_ever(owner, change):
    run = a_run(owner)
    fence = a_claim(run)
    sent = a_dispatch(run, fence, effect="read")
    finish(run, fence, sent, state="failed")
    fields = {"path": "1", "kind": "tool", "name": "x", "arguments": {}, "digest": "d" * 64, "effect": "read"} | change
    with pytest.raises(RuleBroken):
        decide(
            dispatch.dispatch(run_id=run.pk, fence=fence, worker="w", step=StepCall(**fields), nonce=new_id()),
            ring=silent,
        )
