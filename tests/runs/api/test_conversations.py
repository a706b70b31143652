"""Conversations over HTTP: what a message becomes, who may send one, and what waits."""

from typing import Any

import pytest

from runs.api.conversation_schemas import ConversationOut, NextMessageOut
from runs.api.schemas import ListOut, RunOut
from runs.database import decide
from runs.decisions import endings
from runs.ids import new_id, parse_id, text_id
from runs.models import NextMessage, Run
from runs.states import Status
from tests.builders import a_claim, silent
from tests.runs.api.conftest import Caller, error_of


def chat(caller: Caller, prompt: str = "hello", **more: Any) -> Any:
    key = {"idempotency_key": more.pop("key")} if "key" in more else {}
    return caller.post("/runs", {"agent": "chat", "input": {"prompt": prompt}, **more}, **key)


def finish(run: dict[str, Any]) -> None:
    row = Run.objects.get(pk=parse_id("run", run["id"]))
    fence = a_claim(row) if row.lease_owner is None else row.fence
    decide(endings.finish_run(run_id=row.pk, fence=fence, status=Status.COMPLETED, result="r"), ring=silent)


def test_a_run_of_an_agent_that_converses_begins_a_conversation(owner: Caller) -> None:
    run = chat(owner).json()
    RunOut.model_validate(run)
    assert run["turn"] == 1
    conversation = owner.get(f"/conversations/{run['conversation_id']}").json()
    ConversationOut.model_validate(conversation)
    assert (conversation["run_id"], conversation["turns"], conversation["next_messages"]) == (run["id"], 1, [])
    assert owner.create()["conversation_id"] is None  # echo does not


def test_the_next_message_is_the_next_run(owner: Caller) -> None:
    first = chat(owner).json()
    finish(first)
    answer = chat(owner, "and then?", conversation_id=first["conversation_id"])
    second = answer.json()
    assert (answer.status_code, second["turn"], second["conversation_id"]) == (201, 2, first["conversation_id"])
    page = owner.get(f"/conversations/{first['conversation_id']}/runs").json()
    ListOut[RunOut].model_validate(page)
    assert [run["id"] for run in page["data"]] == [second["id"], first["id"]]


def test_a_busy_conversation_refuses_and_names_the_run(owner: Caller) -> None:
    first = chat(owner).json()
    refused = chat(owner, conversation_id=first["conversation_id"])
    error = error_of(refused)
    assert (refused.status_code, error["code"], error["details"]) == (409, "conversation_busy", {"run_id": first["id"]})


def test_a_message_that_waits_says_for_what_and_becomes_a_run(owner: Caller) -> None:
    first = chat(owner).json()
    path = f"/conversations/{first['conversation_id']}"
    answer = chat(owner, "second", conversation_id=first["conversation_id"], on_busy="enqueue", key="k")
    waits = answer.json()
    NextMessageOut.model_validate(waits)
    assert (answer.status_code, answer["Location"]) == (202, f"/api/v1{path}")
    assert (waits["state"], waits["waits_for"], waits["waits_until"]) == ("waiting", first["id"], "end")
    assert owner.get(path).json()["next_messages"] == [waits]
    repeat = chat(owner, "second", conversation_id=first["conversation_id"], on_busy="enqueue", key="k")
    assert (repeat.status_code, repeat["Idempotent-Replayed"], repeat.json()["id"]) == (202, "true", waits["id"])
    finish(first)
    second = chat(owner, "second", conversation_id=first["conversation_id"], on_busy="enqueue", key="k")
    assert (second.status_code, second.json()["turn"]) == (200, 2)
    assert owner.get(path).json()["next_messages"] == []


def test_an_interrupt_stops_the_queued_run_and_is_the_next_one_at_once(owner: Caller) -> None:
    first = chat(owner).json()
    answer = chat(owner, "no, this", conversation_id=first["conversation_id"], on_busy="interrupt")
    assert (answer.status_code, answer.json()["turn"]) == (201, 2)
    assert owner.get(f"/runs/{first['id']}").json()["status"] == "cancelled"


def test_a_waiting_message_can_be_taken_back(owner: Caller, teammate: Caller) -> None:
    first = chat(owner).json()
    waits = chat(owner, conversation_id=first["conversation_id"], on_busy="enqueue").json()
    path = f"/conversations/{first['conversation_id']}/next_messages/{waits['id']}"
    assert teammate.call("DELETE", path).status_code == 403
    for _ in range(2):
        answer = owner.call("DELETE", path)
        assert (answer.status_code, answer.json()["state"], answer.json()["waits_for"]) == (200, "withdrawn", None)
    finish(first)
    assert Run.objects.count() == 1
    assert owner.call("DELETE", path.replace(waits["id"], text_id("next", new_id()))).status_code == 404


def test_a_message_that_has_become_a_run_cannot_be_taken_back(owner: Caller) -> None:
    first = chat(owner).json()
    waits = chat(owner, conversation_id=first["conversation_id"], on_busy="enqueue").json()
    finish(first)
    refused = owner.call("DELETE", f"/conversations/{first['conversation_id']}/next_messages/{waits['id']}")
    error = error_of(refused)
    assert (refused.status_code, error["code"]) == (409, "already_started")
    assert error["details"] == {"run_id": text_id("run", NextMessage.objects.get().run_id)}


@pytest.mark.parametrize(
    ("fields", "status", "param"),
    [
        ({"conversation_id": "conv_1"}, 400, "conversation_id"),
        ({"conversation_id": text_id("conv", new_id())}, 404, None),
        ({"on_busy": "wait"}, 400, "on_busy"),
        ({"conversation_id": 1}, 400, "conversation_id"),
    ],
)
def test_a_wrong_field_is_named(owner: Caller, fields: dict[str, Any], status: int, param: str | None) -> None:
    refused = chat(owner, **fields)
    assert (refused.status_code, error_of(refused)["param"]) == (status, param)


def test_an_agent_that_does_not_converse_is_refused(owner: Caller) -> None:
    first = chat(owner).json()
    finish(first)
    body = {"agent": "echo", "input": {"text": "x"}, "conversation_id": first["conversation_id"]}
    refused = owner.post("/runs", body)
    assert (refused.status_code, error_of(refused)["param"]) == (400, "agent")


def test_who_may_go_on_with_a_conversation(
    owner: Caller, teammate: Caller, operator: Caller, viewer: Caller, outsider: Caller
) -> None:
    first = chat(owner).json()
    finish(first)
    wish = {"conversation_id": first["conversation_id"]}
    assert {c.actor.user.username: chat(c, **wish).status_code for c in (teammate, viewer, outsider)} == {
        "teammate": 403, "viewer": 403, "outsider": 404,
    }  # fmt: skip
    assert viewer.get(f"/conversations/{first['conversation_id']}").status_code == 200
    assert outsider.get(f"/conversations/{first['conversation_id']}").status_code == 404
    assert chat(operator, **wish).status_code == 201


def test_the_key_of_a_message_that_waits_is_no_key_for_a_run_or_a_shell(owner: Caller) -> None:
    talk = chat(owner).json()["conversation_id"]
    assert chat(owner, "second", conversation_id=talk, on_busy="enqueue", key="k").status_code == 202
    for path, body in (("/runs", {"agent": "chat", "input": {"prompt": "second"}}), ("/shells", {})):
        refused = owner.post(path, body, idempotency_key="k")
        assert (refused.status_code, error_of(refused)["code"]) == (422, "idempotency_mismatch")
