"""Reading, listing, stopping and answering runs over HTTP."""

from datetime import datetime, timedelta, timezone
from typing import Any
from uuid import UUID

import pytest

from runs.api.lists import write_cursor
from runs.api.schemas import CancelReceiptOut, ListOut, QuestionOut, RunOut, StepOut
from runs.database import decide
from runs.decisions import dispatch, endings, steps, waiting
from runs.ids import new_id, parse_id, text_id
from runs.models import Event, Run
from runs.states import Status
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.runs.api.conftest import Caller, error_of

EARLIER, LATER = timezone(timedelta(hours=23)), timezone(timedelta(hours=-23))


def stored(run: dict[str, Any]) -> Run:
    return Run.objects.get(pk=parse_id("run", run["id"]))


def a_question(run: Run, schema: dict[str, Any]) -> str:
    """Let a claimed run ask, and wait for the answer."""
    fence, question_id = a_claim(run), new_id()
    call = dispatch.StepCall("1", "ask", "approve", {}, "d" * 64, None)
    asked = decide(
        waiting.ask(
            run_id=run.pk, fence=fence, step=call, question_id=question_id, prompt="Send it?", schema=schema,
            timeout_seconds=60.0,
        ),
        ring=silent,
    )  # fmt: skip
    assert isinstance(asked, waiting.Asked), asked
    wakes = Run.objects.get(pk=run.pk).wakes
    decide(waiting.wait(run_id=run.pk, fence=fence, wakes=wakes, waiting_for="input", wake_at=None), ring=silent)
    assert Run.objects.get(pk=run.pk).status == "waiting"
    return text_id("q", question_id)


# reading


def test_a_run_is_read_with_its_version_as_etag_and_304_while_nothing_changes(owner: Caller) -> None:
    run = owner.create()
    response = owner.get(f"/runs/{run['id']}")
    assert response.status_code == 200
    assert response.json() == run
    etag = response["ETag"]
    for header in (etag, f"W/{etag}", f'"0-0", {etag}', "*"):
        again = owner.get(f"/runs/{run['id']}", if_none_match=header)
        assert (again.status_code, again.content, again["ETag"]) == (304, b"", etag)
    assert owner.get(f"/runs/{run['id']}", if_none_match='"0-0"').status_code == 200
    a_claim(stored(run))
    changed = owner.get(f"/runs/{run['id']}", if_none_match=etag)
    assert (changed.status_code, changed.json()["status"]) == (200, "running")


def test_an_appended_event_changes_the_etag_although_the_version_stays(owner: Caller) -> None:
    run = owner.create()
    etag = owner.get(f"/runs/{run['id']}")["ETag"]
    Run.objects.filter(pk=stored(run).pk).update(last_seq=run["head_seq"] + 1)  # what the hot append does
    response = owner.get(f"/runs/{run['id']}", if_none_match=etag)
    assert response.status_code == 200
    assert response.json()["head_seq"] == run["head_seq"] + 1
    assert response.json()["version"] == run["version"]


MALFORMED = ["run_", "run_x", "nonsense", "run_" + "0" * 31, "run_" + "G" * 32, "RUN_" + "0" * 32, "q_" + "0" * 32]


@pytest.mark.parametrize("run_id", [*MALFORMED, "run_" + "0" * 32, "%00", "run_%E2%80%A8", "x" * 3000])
@pytest.mark.parametrize("tail", ["", "/steps", "/artifacts", "/cancel", "/answers/q_" + "0" * 32])
def test_a_malformed_or_unknown_id_is_404(owner: Caller, run_id: str, tail: str) -> None:
    if tail in ("", "/steps", "/artifacts"):
        response = owner.get(f"/runs/{run_id}{tail}")
    else:
        response = owner.post(f"/runs/{run_id}{tail}", {"value": 1} if "answers" in tail else {})
    assert response.status_code == 404
    assert error_of(response)["type"] == "not_found_error"


def test_a_run_of_another_tenant_is_404_everywhere_and_teammates_may_read(
    owner: Caller, teammate: Caller, outsider: Caller
) -> None:
    run = owner.create()
    path = f"/runs/{run['id']}"
    assert teammate.get(path).status_code == 200
    for response in (
        outsider.get(path),
        outsider.get(f"{path}/steps"),
        outsider.get(f"{path}/artifacts"),
        outsider.get(f"{path}/artifacts/art_{'0' * 32}"),
        outsider.post(f"{path}/cancel"),
        outsider.post(f"{path}/answers/q_{'0' * 32}", {"value": 1}),
        outsider.get(f"/operations?run_id={run['id']}"),
    ):
        assert response.status_code == 404
        assert error_of(response)["code"] == "not_found"
    assert outsider.get("/runs").json()["data"] == []
    assert stored(run).status == "queued"


# lists


def test_pages_hold_each_run_once_although_runs_are_added_meanwhile(owner: Caller) -> None:
    made = [owner.create(title=f"run {n}")["id"] for n in range(7)]
    seen, cursor = [], ""
    while True:
        page = owner.get(f"/runs?limit=3{cursor}").json()
        ListOut[RunOut].model_validate(page)
        seen += [run["id"] for run in page["data"]]
        owner.create(title="added meanwhile")
        if not page["has_more"]:
            assert page["next_cursor"] is None
            break
        cursor = f"&cursor={page['next_cursor']}"
    assert seen == made[::-1]


def test_runs_of_one_instant_are_not_lost_between_pages(owner: Caller) -> None:
    made = {owner.create()["id"] for _ in range(5)}
    Run.objects.update(created_at="2026-11-29T12:00:00Z")
    first = owner.get("/runs?limit=2").json()
    second = owner.get(f"/runs?limit=2&cursor={first['next_cursor']}").json()
    third = owner.get(f"/runs?limit=2&cursor={second['next_cursor']}").json()
    seen = [run["id"] for page in (first, second, third) for run in page["data"]]
    assert len(seen) == 5
    assert set(seen) == made


def test_filters_take_statuses_agent_and_text(owner: Caller) -> None:
    first, second = owner.create(title="Quarterly 100% report"), owner.create(title="Other")
    a_claim(stored(second))

    def ids(query: str) -> list[str]:
        return [run["id"] for run in owner.get(f"/runs?{query}").json()["data"]]

    assert ids("status=queued") == [first["id"]]
    assert ids("status=queued,running") == [second["id"], first["id"]]
    assert ids("status=failed") == []
    assert ids("agent=echo") == [second["id"], first["id"]]
    assert ids("agent=chat") == []
    assert ids("q=quarterly") == [first["id"]]
    assert ids("q=100%25") == [first["id"]]
    assert ids("q=1_0") == []
    assert ids(f"q={second['id']}") == [second["id"]]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=-1", "limit"),
        ("limit=abc", "limit"),
        ("limit=", "limit"),
        ("cursor=", "cursor"),
        ("cursor=x", "cursor"),
        ("cursor=%00", "cursor"),
        ("cursor=W10", "cursor"),
        ("cursor=WyIyMDI2LTExLTI5IiwieCJd", "cursor"),
        ("cursor=" + write_cursor(datetime.min.replace(tzinfo=EARLIER), UUID(int=1)), "cursor"),
        ("cursor=" + write_cursor(datetime.max.replace(tzinfo=LATER), UUID(int=1)), "cursor"),
        ("cursor=" + "W1tb" * 3000, "cursor"),
        ("status=sleeping", "status"),
        ("q=%00", "q"),
        ("q=" + "x" * 201, "q"),
        ("agent=%00", "agent"),
        ("state=queued", "state"),
    ],
)
def test_a_wrong_query_is_400_and_named(owner: Caller, query: str, param: str) -> None:
    response = owner.get(f"/runs?{query}")
    assert response.status_code == 400
    assert error_of(response)["param"] == param


def test_a_page_costs_no_more_queries_when_it_has_more_runs(owner: Caller, django_assert_max_num_queries: Any) -> None:
    for _ in range(10):
        a_claim(stored(owner.create()))
    owner.get("/runs?limit=1")
    with django_assert_max_num_queries(6):
        assert len(owner.get("/runs").json()["data"]) == 10


def test_steps_are_listed_oldest_first(owner: Caller) -> None:
    run = owner.create()
    row = stored(run)
    fence = a_claim(row)
    sent = a_dispatch(row, fence, path="1", effect="read")
    decide(steps.finish_step(run_id=row.pk, fence=fence, step_id=sent.step_id, state="finished", result=1), ring=silent)
    a_dispatch(row, fence, path="2", kind="model")
    page = owner.get(f"/runs/{run['id']}/steps").json()
    ListOut[StepOut].model_validate(page)
    assert [(step["path"], step["kind"], step["state"]) for step in page["data"]] == [
        ("1", "tool", "finished"),
        ("2", "model", "open"),
    ]
    assert page["data"][0]["result"] == 1


# stopping


def test_a_queued_run_is_cancelled_at_once_and_the_second_ask_is_200_with_the_same_receipt(owner: Caller) -> None:
    run = owner.create()
    first = owner.post(f"/runs/{run['id']}/cancel", {"note": "changed my mind"})
    assert first.status_code == 202
    receipt = first.json()
    CancelReceiptOut.model_validate(receipt)
    assert (receipt["status"], receipt["reason"], receipt["by"]) == ("cancelled", "user", "owner")
    assert (receipt["note"], receipt["too_late"]) == ("changed my mind", False)
    again = owner.post(f"/runs/{run['id']}/cancel", {"note": "another note"})
    assert again.status_code == 200
    assert again.json() == receipt
    whole = owner.get(f"/runs/{run['id']}").json()
    assert whole == receipt["run"]
    assert whole["cancel"]["id"] == receipt["id"]
    assert Event.objects.filter(type="run.cancel_requested").count() == 1


@pytest.mark.parametrize("body", [None, {}, {"note": ""}])
def test_a_stop_needs_no_body(owner: Caller, body: Any) -> None:
    run = owner.create()
    content_type = "application/json" if body is not None else "application/x-www-form-urlencoded"
    assert owner.post(f"/runs/{run['id']}/cancel", body, content_type=content_type).status_code == 202


@pytest.mark.parametrize(("body", "param"), [({"note": 5}, "note"), ({"note": "a\x00"}, "note"), ({"x": 1}, "x")])
def test_a_wrong_note_is_400_and_stops_nothing(owner: Caller, body: Any, param: str) -> None:
    run = owner.create()
    response = owner.post(f"/runs/{run['id']}/cancel", body)
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert stored(run).status == "queued"


def test_a_stop_in_mid_tool_names_what_is_pending_and_the_run_object_fills_it_up(owner: Caller) -> None:
    run = owner.create()
    row = stored(run)
    fence = a_claim(row)
    sent = a_dispatch(row, fence)
    receipt = owner.post(f"/runs/{run['id']}/cancel")
    assert receipt.status_code == 202
    assert receipt.json()["status"] == "cancel_requested"
    assert [effect["outcome"] for effect in receipt.json()["effects"]] == ["pending"]
    assert receipt.json()["stop_deadline_at"] is not None
    an_outcome(row, fence, sent, "succeeded")
    effects = owner.get(f"/runs/{run['id']}").json()["cancel"]["effects"]
    assert [effect["outcome"] for effect in effects] == ["committed"]
    assert effects[0]["proof"] == "test"


def test_a_stop_after_the_end_is_200_too_late_and_changes_nothing(owner: Caller) -> None:
    run = owner.create()
    row = stored(run)
    fence = a_claim(row)
    decide(endings.finish_run(run_id=row.pk, fence=fence, status=Status.COMPLETED, result="done"), ring=silent)
    before = owner.get(f"/runs/{run['id']}").json()
    for _ in range(3):
        response = owner.post(f"/runs/{run['id']}/cancel")
        assert response.status_code == 200
        assert (response.json()["too_late"], response.json()["id"], response.json()["status"]) == (
            True,
            None,
            "completed",
        )
        assert response.json()["run"] == before
    assert owner.get(f"/runs/{run['id']}").json() == before
    assert before["result"] == "done"


def test_a_teammate_may_not_stop_it_but_an_operator_may(owner: Caller, teammate: Caller, operator: Caller) -> None:
    run = owner.create()
    response = teammate.post(f"/runs/{run['id']}/cancel")
    assert response.status_code == 403
    assert error_of(response)["code"] == "forbidden"
    assert stored(run).status == "queued"
    assert operator.post(f"/runs/{run['id']}/cancel").json()["by"] == "operator"


# answering


def test_an_answer_is_taken_once_and_the_same_one_again_is_200(owner: Caller) -> None:
    run = owner.create()
    question_id = a_question(stored(run), {"type": "boolean"})
    waiting_run = owner.get(f"/runs/{run['id']}").json()
    assert waiting_run["waiting"] == {"for": "input", "wake_at": None, "question_ids": [question_id]}
    path = f"/runs/{run['id']}/answers/{question_id}"
    first = owner.post(path, {"value": True}, idempotency_key="a-1")
    assert first.status_code == 200
    QuestionOut.model_validate(first.json())
    assert (first.json()["state"], first.json()["value"]) == ("answered", True)
    again = owner.post(path, {"value": True})
    assert (again.status_code, again.json()) == (200, first.json())
    other = owner.post(path, {"value": False})
    assert other.status_code == 409
    error = error_of(other)
    assert (error["code"], error["type"]) == ("too_late", "conflict_error")
    assert error["details"] == {"state": "answered", "accepted": True}
    assert owner.get(f"/runs/{run['id']}").json()["status"] == "running"


def test_an_answer_after_a_stop_is_409(owner: Caller) -> None:
    run = owner.create()
    question_id = a_question(stored(run), {"type": "boolean"})
    owner.post(f"/runs/{run['id']}/cancel")
    response = owner.post(f"/runs/{run['id']}/answers/{question_id}", {"value": True})
    assert response.status_code == 409
    assert error_of(response)["details"] == {"state": "shut", "accepted": None}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "value"),
        ({"value": "yes"}, "value"),
        ({"value": "a\x00"}, "value"),
        ({"value": True, "more": 1}, "more"),
        ([], None),
        (None, None),
    ],
)
def test_an_answer_that_does_not_fit_is_400_and_the_question_stays_open(owner: Caller, body: Any, param: Any) -> None:
    run = owner.create()
    question_id = a_question(stored(run), {"type": "boolean"})
    response = owner.post(f"/runs/{run['id']}/answers/{question_id}", body)
    assert (response.status_code, error_of(response)["param"]) == (400, param)
    assert owner.get(f"/runs/{run['id']}").json()["waiting"]["question_ids"] == [question_id]


def test_a_question_of_another_run_is_404(owner: Caller) -> None:
    run, other = owner.create(), owner.create()
    question_id = a_question(stored(run), {"type": "boolean"})
    assert owner.post(f"/runs/{other['id']}/answers/{question_id}", {"value": True}).status_code == 404
