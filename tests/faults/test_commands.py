"""FAULTS B03, B39, B41: the same command many times at once, too late, or for somebody else's run, over the API."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pydantic import BaseModel

from runs.access import SCOPES, issue_token
from runs.agents import RunContext, agent
from runs.models import Event, OutboxRow, Run
from runs.testing.lab import Outlive
from runs.testing.run import RunUnderTest
from tests.faults.conftest import Check
from tests.runs.api.conftest import Caller
from tools.builtin import create_invoice

type AtOnce = Callable[[list[Callable[[], Any]]], list[Any]]


class Choice(BaseModel):
    """What a person answers."""

    word: str


@agent("b39_invoice", listed=False)
async def invoice(ctx: RunContext) -> Any:
    """Send one."""
    return await ctx.tool(create_invoice, customer="Ada", cents=1)


@agent("b41_ask", listed=False)
async def ask(ctx: RunContext) -> str:
    """Ask, then tell a model what was answered."""
    word = (await ctx.ask("Which?", schema=Choice)).word
    return (await ctx.model(f"They said {word}.")).text


@pytest.fixture
def caller(outlive: Outlive) -> Caller:
    """A program of the person who starts the runs."""
    _, token = issue_token(user=outlive.actor.user, tenant=outlive.actor.tenant, name="faults", scopes=SCOPES)
    return Caller(outlive.actor, token, Client(raise_request_exception=False))


@pytest.fixture
def at_once() -> Iterator[AtOnce]:
    """Call functions in threads of their own, each with its own connection to the database."""

    def closing(call: Callable[[], Any]) -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        yield lambda calls: list(pool.map(closing, calls))


def traces(run: RunUnderTest) -> tuple[int, int]:
    """Count what a command would leave behind."""
    return Event.objects.filter(stream_id=run.row.stream_id).count(), OutboxRow.objects.count()


def test_b03_twenty_stops_at_once_are_one(outlive: Outlive, caller: Caller, at_once: AtOnce, check: Check) -> None:
    turn = outlive.model.says("It is said.", hold_at=1)
    run = outlive.put("b41_ask").to_end()
    run.answer({"word": "A"})
    run.until("text.delta")
    turn.wait_held()
    answers = at_once([lambda: caller.post(f"/runs/{run.id}/cancel")] * 20)
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len({answer.json()["requested_at"] for answer in answers}) == 1
    run.to_end()
    assert (run.status, run.types.count("run.cancel_requested")) == ("cancelled", 1)
    check(run)


@pytest.mark.parametrize("end", ["completed", "failed", "cancelled", "needs_reconciliation"])
def test_b03_a_stop_after_the_end_changes_nothing(outlive: Outlive, caller: Caller, at_once: AtOnce, end: str) -> None:
    if end == "failed":
        outlive.target.behave(refuse=True)
    if end == "needs_reconciliation":
        outlive.target.behave(never_answer=True, lookup_fails=True)
    run = outlive.start("b39_invoice", deadline_seconds=1.5 if end == "needs_reconciliation" else 60)
    if end == "cancelled":
        run.stop()
    run.to_end()
    assert run.status == end
    before = caller.get(f"/runs/{run.id}").content, traces(run)
    answers = at_once([lambda: caller.post(f"/runs/{run.id}/cancel")] * 5)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert (caller.get(f"/runs/{run.id}").content, traces(run)) == before
    outlive.target.behave()
    assert outlive.run("b39_invoice").status == "completed"


def test_b39_one_key_makes_one_run(outlive: Outlive, caller: Caller, at_once: AtOnce, check: Check) -> None:
    body = {"agent": "b39_invoice", "input": {}}

    def create() -> Any:
        return caller.post("/runs", body, idempotency_key="once")

    answers = at_once([create] * 24)
    assert {answer.status_code for answer in answers} <= {200, 201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    run = outlive.follow(Run.objects.get()).to_end()
    assert (run.status, run.effects) == ("completed", [1])
    again = create()
    assert (again.status_code, again.json()["id"]) == (200, run.id)
    other = caller.post("/runs", body | {"title": "another"}, idempotency_key="once")
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_mismatch")
    for key in ("k" * 300, ""):
        assert caller.post("/runs", body, idempotency_key=key).status_code < 500
    assert Run.objects.filter(idempotency_key="once").count() == 1
    check(run)


def test_b41_of_two_answers_at_once_one_is_taken(
    outlive: Outlive, caller: Caller, at_once: AtOnce, check: Check
) -> None:
    outlive.model.says("It is said.")
    run = outlive.run("b41_ask")
    path = f"/runs/{run.id}/answers/{caller.get(f'/runs/{run.id}').json()['waiting']['question_ids'][0]}"

    def answer(word: str) -> Callable[[], Any]:
        return lambda: caller.post(path, {"value": {"word": word}})

    answers = at_once([answer("A"), answer("B")])
    assert sorted(one.status_code for one in answers) == [200, 409]
    winner = "A" if answers[0].status_code == 200 else "B"
    (late,) = [one for one in answers if one.status_code == 409]
    assert winner in json.dumps(late.json()["error"])
    assert answer(winner)().status_code == 200
    run.to_end()
    assert (run.status, len(outlive.model.asked)) == ("completed", 1)
    assert outlive.model.asked[0].messages[-1].content == f"They said {winner}."
    assert answer(winner)().status_code == 200
    assert answer("C")().status_code == 409
    check(run)


def test_b41_a_waiting_run_is_stopped_and_takes_no_answer_afterwards(
    outlive: Outlive, caller: Caller, check: Check
) -> None:
    run, other = outlive.run("b41_ask"), outlive.run("b41_ask")
    (question,) = caller.get(f"/runs/{run.id}").json()["waiting"]["question_ids"]
    foreign = caller.post(f"/runs/{other.id}/answers/{question}", {"value": {"word": "A"}})
    assert foreign.status_code == 404
    stopped = caller.post(f"/runs/{run.id}/cancel")
    assert (stopped.status_code, run.status) == (202, "cancelled")
    late = caller.post(f"/runs/{run.id}/answers/{question}", {"value": {"word": "A"}})
    assert (late.status_code, late.json()["error"]["code"]) == (409, "too_late")
    other.tend()
    assert (run.status, other.status, outlive.model.asked) == ("cancelled", "waiting", [])
    check(run)
