"""What kills its worker: counted at the step that was open, run alone after two deaths, ended after three."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from runs.database import decide
from runs.decisions import claims
from runs.decisions.dispatch import StepCall
from runs.decisions.steps import finish_step, instant_step
from runs.models import Run, Step
from runs.states import Status
from runs.supervisor.lost_workers import worker_gone
from tests.builders import a_claim, a_dispatch, a_run, silent
from tests.runs.decisions.test_cancels import stop
from tests.runs.decisions.test_claims import expire
from tests.runs.decisions.test_waiting import wait

PROOF = {"pid": 1, "signal": 9}


def die(run: Run, worker: str = "worker-a", **how: Any) -> int:
    worker_gone(worker, PROOF, **how)
    return Run.objects.get(pk=run.pk).deaths


def claim(run: Run, *, is_alone: bool = False) -> Any:
    return decide(claims.claim(run_id=run.pk, worker="worker-a", lease_seconds=60.0, is_alone=is_alone), ring=silent)


def test_deaths_are_counted_at_the_step_that_was_open(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), effect="read")
    assert die(run) == 1
    a_dispatch(run, a_claim(run), effect="read")
    assert die(run) == 2
    assert Step.objects.get(run=run).deaths == 2


def test_a_step_that_had_ended_before_is_not_counted_beside_one_that_was_open(owner):
    run = a_run(owner)
    fence = a_claim(run)
    done = a_dispatch(run, fence, effect="read")
    decide(finish_step(run_id=run.pk, fence=fence, step_id=done.step_id, state="finished"), ring=silent)
    a_dispatch(run, fence, path="2", effect="read")
    die(run)
    assert list(Step.objects.filter(run=run).order_by("path").values_list("path", "deaths")) == [("1", 0), ("2", 1)]


def test_progress_between_two_deaths_begins_a_new_count(owner):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), effect="read")
    die(run)
    fence = a_claim(run)
    again = a_dispatch(run, fence, effect="read")
    decide(finish_step(run_id=run.pk, fence=fence, step_id=again.step_id, state="finished"), ring=silent)
    a_dispatch(run, fence, path="2", effect="read")
    assert die(run) == 1


def test_an_agent_that_dies_in_its_own_code_dies_after_its_newest_step(owner):
    run = a_run(owner)
    a_claim(run)
    assert [die(run), a_claim(run) and die(run)] == [1, 2]  # before any step
    fence = claim(run, is_alone=True).fence
    step = StepCall("1", "text", "text", {}, "d" * 64)
    decide(instant_step(run_id=run.pk, fence=fence, step=step, result=None, facts=[]), ring=silent)
    assert die(run) == 1


@pytest.mark.parametrize("why", ["lease", "deploy"])
def test_neither_a_lost_lease_nor_a_deploy_is_a_death(owner, why):
    run = a_run(owner)
    a_dispatch(run, a_claim(run), effect="read")
    if why == "lease":
        expire(run)
        decide(claims.expire_lease(run_id=run.pk), ring=silent)
        assert Run.objects.get(pk=run.pk).deaths == 0
    else:
        assert die(run, is_death=False) == 0
    assert Run.objects.get(pk=run.pk).lease_owner is None


def test_after_two_deaths_only_a_process_of_its_own_may_carry_a_run(owner):
    run = a_run(owner)
    for _ in range(2):
        a_dispatch(run, a_claim(run), effect="read")
        die(run)
    assert claim(run) == claims.NotClaimable(Status.RUNNING)
    assert isinstance(claim(run, is_alone=True), claims.Claimed)
    assert die(run) == 3
    assert isinstance(claim(run), claims.Claimed)  # whoever comes ends it; its agent does not run


def test_a_stop_of_a_run_that_must_run_alone_is_carried_out_by_anybody(owner):
    run = a_run(owner)
    Run.objects.filter(pk=run.pk).update(deaths=2, fence=1)
    a_dispatch(run, claim(run, is_alone=True).fence)
    stop(run)
    Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert isinstance(claim(run), claims.Claimed)


def test_a_run_that_came_to_wait_has_lived_through_it(owner):
    run = a_run(owner)
    Run.objects.filter(pk=run.pk).update(deaths=2, fence=1)
    wait(run, claim(run, is_alone=True).fence)
    assert Run.objects.get(pk=run.pk).deaths == 0
