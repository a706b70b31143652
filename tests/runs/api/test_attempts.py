"""A retry over HTTP: what it answers, what it refuses, and the streams of the attempts."""

from typing import Any

import pytest

from runs.access import issue_token
from runs.api.attempt_schemas import AttemptOut
from runs.api.schemas import ListOut, RunOut
from runs.database import decide
from runs.decisions import endings
from runs.decisions.keeping import Trimming, trim
from runs.ids import new_id, parse_id, text_id
from runs.models import AuditEntry, Run
from runs.retention.checkpoints import keep
from runs.states import Status
from tests.builders import a_claim, a_dispatch, an_outcome, silent
from tests.runs.api.conftest import Caller, error_of, make_caller
from tests.runs.api.test_operations import an_unknown_operation
from tests.runs.retention.conftest import a_text
from tests.streaming.writing import emit, join_deltas


def end(run: dict[str, Any], *, sends: bool = False) -> Run:
    row = Run.objects.get(pk=parse_id("run", run["id"]))
    fence = a_claim(row)
    if sends:
        an_outcome(row, fence, a_dispatch(row, fence), "succeeded")
    decide(endings.finish_run(run_id=row.pk, fence=fence, status=Status.FAILED, error_code="x"), ring=silent)
    row.refresh_from_db()
    return row


def test_a_retry_is_a_new_attempt_of_the_same_run(owner: Caller) -> None:
    run = owner.create()
    end(run)
    answer = owner.post(f"/runs/{run['id']}/attempts", {"reason": "wrong customer", "reuse": "nothing"})
    assert answer.status_code == 201, answer.content
    again = answer.json()
    RunOut.model_validate(again)
    assert (again["id"], again["attempt"], again["status"], again["error"]) == (run["id"], 2, "queued", None)
    assert answer["Location"] == f"/api/v1/runs/{run['id']}"
    page = owner.get(f"/runs/{run['id']}/attempts").json()
    ListOut[AttemptOut].model_validate(page)
    first, second = page["data"]
    assert (first["status"], first["retry_of"], first["by"]) == ("failed", None, None)
    assert (second["retry_of"], second["by"], second["reason"], second["reuse"]) == (
        1, "owner", "wrong customer", "nothing",
    )  # fmt: skip


def test_the_stream_of_an_ended_attempt_stays_readable(owner: Caller) -> None:
    run = owner.create()
    end(run)
    owner.post(f"/runs/{run['id']}/attempts")
    first = owner.get(f"/runs/{run['id']}/attempts/1/events").json()
    assert [e["seq"] for e in first["data"]] == list(range(1, len(first["data"]) + 1))
    assert (first["data"][-1]["type"], first["status"], first["is_ended"]) == ("run.failed", "failed", True)
    rest = owner.get(f"/runs/{run['id']}/attempts/1/events?after=2&limit=1").json()
    assert ([e["seq"] for e in rest["data"]], rest["has_more"]) == ([3], True)
    assert rest["next_cursor"] == f"{run['stream_id']}:3"
    second = owner.get(f"/runs/{run['id']}/attempts/2/events").json()
    assert ([e["type"] for e in second["data"]], second["is_ended"]) == (["attempt.created"], False)
    assert owner.get(f"/runs/{run['id']}/attempts/3/events").status_code == 404
    for query in ("after=-1", "limit=0", "limit=1001", "nonsense=1"):
        refused = owner.get(f"/runs/{run['id']}/attempts/1/events?{query}")
        assert (refused.status_code, error_of(refused)["param"]) == (400, query.partition("=")[0])


def test_what_is_not_kept_of_an_attempt_is_said_and_the_rest_is_given(owner: Caller) -> None:
    run = owner.create()
    end(run)
    path, row = f"/runs/{run['id']}/attempts/1/events", Run.objects.get()
    keep(row.stream_id)
    decide(trim(Trimming(row.pk, row.stream_id, 3, 100, None)))
    for after, reason in ((0, "trimmed"), (1, "trimmed"), (row.last_seq + 1, "ahead")):
        gone = owner.get(f"{path}?after={after}")
        assert (gone.status_code, error_of(gone)["code"]) == (410, "cursor_expired")
        assert error_of(gone)["details"] == {"reason": reason, "earliest_seq": 3}
    rest = owner.get(f"{path}?after=2").json()
    assert [e["seq"] for e in rest["data"]] == list(range(3, row.last_seq + 1))
    assert (rest["earliest_seq"], rest["head_seq"], rest["has_more"]) == (3, row.last_seq, False)
    decide(trim(Trimming(row.pk, row.stream_id, 1000, 100, None)))
    assert owner.get(path).status_code == 410
    last = owner.get(f"{path}?after={row.last_seq}").json()
    assert (last["data"], last["has_more"], last["earliest_seq"]) == ([], False, row.last_seq + 1)


def test_a_joined_text_of_an_attempt_is_one_event(owner: Caller) -> None:
    run = owner.create()
    emit(Run.objects.get(), *a_text("m", 5), rings=False)
    end(run)
    assert join_deltas(Run.objects.get())[:3] == [1, 2, 7]
    path = f"/runs/{run['id']}/attempts/1/events"
    assert [e["seq"] for e in owner.get(f"{path}?after=2&limit=1").json()["data"]] == [7]
    assert error_of(owner.get(f"{path}?after=4"))["details"] == {"reason": "trimmed", "earliest_seq": 1}


def test_the_same_key_makes_one_attempt(owner: Caller) -> None:
    run = owner.create()
    end(run)
    path = f"/runs/{run['id']}/attempts"
    first = owner.post(path, {"reason": "r"}, idempotency_key="k")
    again = owner.post(path, {"reason": "r"}, idempotency_key="k")
    assert (first.status_code, again.status_code, again["Idempotent-Replayed"]) == (201, 200, "true")
    assert again.json()["attempt"] == 2
    other = owner.post(path, {"reason": "other"}, idempotency_key="k")
    assert (other.status_code, error_of(other)["code"]) == (422, "idempotency_mismatch")


def test_a_run_that_goes_on_is_not_retried(owner: Caller) -> None:
    run = owner.create()
    refused = owner.post(f"/runs/{run['id']}/attempts")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "run_not_terminal")


def test_a_run_in_doubt_names_what_must_be_settled(owner: Caller) -> None:
    run, operation = an_unknown_operation(owner)
    refused = owner.post(f"/runs/{run['id']}/attempts")
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (409, "run_needs_reconciliation")
    assert error["details"] == {"operation_ids": [operation["id"]]}


def test_if_match_refuses_a_run_that_has_moved(owner: Caller) -> None:
    run = owner.create()
    old = owner.get(f"/runs/{run['id']}")["ETag"]
    end(run)
    path = f"/runs/{run['id']}/attempts"
    assert error_of(owner.post(path, if_match=old))["code"] == "stale_version"
    assert owner.post(path, if_match=owner.get(f"/runs/{run['id']}")["ETag"]).status_code == 201


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"reuse": "some"}, "reuse"),
        ({"redo": ["op_1"]}, "redo"),
        ({"redo": [text_id("op", new_id())]}, "redo"),
        ({"redo": "op_1"}, "redo"),
        ({"reason": 1}, "reason"),
        ({"reason": "x" * 1001}, "reason"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_body_names_its_field(owner: Caller, body: dict[str, Any], param: str) -> None:
    run = owner.create()
    end(run)
    refused = owner.post(f"/runs/{run['id']}/attempts", body)
    assert (refused.status_code, error_of(refused)["param"]) == (400, param)
    assert owner.get(f"/runs/{run['id']}").json()["attempt"] == 1


def test_who_may_retry(
    owner: Caller, teammate: Caller, operator: Caller, viewer: Caller, outsider: Caller, tenant: Any
) -> None:
    run = owner.create()
    end(run)
    path = f"/runs/{run['id']}/attempts"
    statuses = {caller.actor.user.username: caller.post(path).status_code for caller in (teammate, viewer, outsider)}
    assert statuses == {"teammate": 403, "viewer": 403, "outsider": 404}
    reader = make_caller("reader", tenant, "operator", scopes=["runs:read"])
    assert reader.post(path).status_code == 403
    assert not AuditEntry.objects.exists()
    assert operator.post(path, {"reason": "for owner"}).status_code == 201
    assert [(e.action, e.detail["attempt"]) for e in AuditEntry.objects.all()] == [("run.retry", 2)]


def test_doing_it_again_needs_its_own_scope_and_is_audited(owner: Caller) -> None:
    run = owner.create()
    end(run, sends=True)
    (operation,) = owner.get(f"/operations?run_id={run['id']}").json()["data"]
    path, body = f"/runs/{run['id']}/attempts", {"redo": [operation["id"]], "reason": "the first one was lost"}
    scopes = ["runs:read", "runs:write"]
    _, token = issue_token(user=owner.actor.user, tenant=owner.actor.tenant, name="weak", scopes=scopes)
    weak = Caller(owner.actor, token, owner.client)
    assert error_of(weak.post(path, body))["code"] == "forbidden"
    assert owner.post(path, body).status_code == 201
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.subject, entry.user) == ("operation.redo", operation["id"], owner.actor.user)
    assert (entry.detail["run_id"], entry.detail["reason"]) == (run["id"], "the first one was lost")
