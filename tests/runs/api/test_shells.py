"""Shells over HTTP: opened, listed, kept and ended, by whom it is allowed."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from runs.api.schemas import ListOut, RunOut
from runs.api.shell_schemas import ShellOut
from runs.database import decide
from runs.decisions import controls, viewers
from runs.ids import new_id, parse_id, text_id
from runs.models import Run, Shell, ShellTarget
from tests.builders import a_claim, an_agents_shell
from tests.runs.api.conftest import Caller, error_of, make_caller


def opened(caller: Caller, **body: Any) -> dict[str, Any]:
    response = caller.post("/shells", body)
    assert response.status_code == 201, response.content
    shell: dict[str, Any] = response.json()
    return shell


def test_a_shell_is_opened_and_read(owner: Caller, viewer: Caller) -> None:
    response = owner.post("/shells", {"rows": 30, "cols": 90, "title": "mine", "on_disconnect": {"grace_s": 60}})
    shell = response.json()
    ShellOut.model_validate(shell)
    assert (response.status_code, response["Location"]) == (201, f"/api/v1/shells/{shell['id']}")
    assert (shell["target"], shell["rows"], shell["cols"], shell["title"]) == ("local", 30, 90, "mine")
    assert (shell["status"], shell["on_disconnect"]) == ("queued", {"grace_s": 60.0})
    assert viewer.get(f"/shells/{shell['id']}").json() == shell
    run = owner.get(f"/runs/{shell['run']}").json()
    RunOut.model_validate(run)
    assert (run["shell"], run["agent"]) == (shell["id"], "shell")
    assert owner.create()["shell"] is None


def test_a_shell_says_who_is_in_control_and_who_watches(owner: Caller, viewer: Caller) -> None:
    """Of a list it takes no more statements than of one."""
    for _ in range(2):
        shell = opened(owner)
        run_id = parse_id("run", shell["run"])
        assert (shell["in_control"], shell["watching"]) == (None, [])
        for _ in range(2):
            decide(viewers.come(viewer_id=new_id(), run_id=run_id, user_id=viewer.actor.user.pk))
        decide(controls.attach_pilot(run_id=run_id, user_id=owner.actor.user.pk))
    there = {"in_control": owner.actor.user.username, "watching": [{"name": viewer.actor.user.username, "windows": 2}]}
    read = owner.get(f"/shells/{shell['id']}").json()
    assert {key: read[key] for key in there} == there
    with CaptureQueriesContext(connection) as asked:
        page = owner.get("/shells").json()["data"]
    assert [{key: one[key] for key in there} for one in page] == [there, there]
    assert sum("runs_shellviewer" in one["sql"] for one in asked.captured_queries) == 1


def test_the_body_may_be_left_out_and_the_key_brings_it_back(owner: Caller) -> None:
    first = owner.post("/shells", idempotency_key="k")
    again = owner.post("/shells", idempotency_key="k")
    assert (first.status_code, again.status_code, again["Idempotent-Replayed"]) == (201, 200, "true")
    assert first.json()["id"] == again.json()["id"]
    other = owner.post("/shells", {"rows": 9}, idempotency_key="k")
    assert (other.status_code, error_of(other)["code"]) == (422, "idempotency_mismatch")
    assert Shell.objects.count() == 1


@pytest.mark.parametrize(
    "body", [{"rows": 0}, {"cols": 1001}, {"rows": "24"}, {"shell": "x"}, {"on_disconnect": "no"}, {"record": 1}]
)
def test_a_wrong_body_opens_nothing(owner: Caller, body: dict[str, Any]) -> None:
    assert owner.post("/shells", body).status_code == 400
    assert not Run.objects.exists()


def test_who_may_not_open_one(viewer: Caller, owner: Caller, operator: Caller) -> None:
    ShellTarget.objects.create(tenant=owner.actor.tenant, name="box", min_role="operator")
    assert viewer.post("/shells", {}).status_code == 403
    assert owner.post("/shells", {"target": "box"}).status_code == 403
    assert owner.post("/shells", {"target": "nowhere"}).status_code == 404
    assert opened(operator, target="box")["target"] == "box"


def test_scopes_of_shells_are_their_own(owner: Caller) -> None:
    tenant, shell = owner.actor.tenant, opened(owner)
    runs = make_caller("of runs", tenant, "runner", scopes=["runs:read", "runs:write", "runs:cancel"])
    views = make_caller("who views", tenant, "operator", scopes=["shells:view"])
    path = f"/shells/{shell['id']}"
    assert [runs.get(path).status_code, runs.get("/shells").status_code] == [403, 403]
    assert runs.post("/shells", {}).status_code == 403
    assert views.get(path).status_code == 200
    assert views.post(f"{path}/terminate").status_code == 403
    assert views.post("/shells", {}).status_code == 403


def test_they_are_listed_newest_first_and_by_whether_they_go_on(owner: Caller, outsider: Caller) -> None:
    first, second = opened(owner), opened(owner)
    owner.post(f"/shells/{first['id']}/terminate")
    page = owner.get("/shells").json()
    ListOut[ShellOut].model_validate(page)
    assert [one["id"] for one in page["data"]] == [second["id"], first["id"]]
    assert [one["id"] for one in owner.get("/shells?open=true").json()["data"]] == [second["id"]]
    assert [one["id"] for one in owner.get("/shells?open=false").json()["data"]] == [first["id"]]
    assert outsider.get("/shells").json()["data"] == []
    assert owner.get("/shells?opne=true").status_code == 400


@pytest.mark.parametrize("id", ["shell_1", "run_" + "0" * 32, "shell_" + "0" * 32, "shell_" + "A" * 32])
def test_b49_attaches_and_commands_at_ids_that_are_none_leave_nothing(owner: Caller, id: str) -> None:
    for call in (owner.get(f"/shells/{id}"), owner.post(f"/shells/{id}/terminate"),
                 owner.post(f"/shells/{id}/keep", {"seconds": 1})):  # fmt: skip
        assert call.status_code == 404
    assert not Shell.objects.exists()
    assert not Run.objects.exists()


def test_b51_a_shell_of_another_workspace_is_like_none(owner: Caller, outsider: Caller) -> None:
    shell, nothing = opened(owner), "shell_" + "0" * 32
    for path, body in (("", None), ("/terminate", {}), ("/keep", {"seconds": 5})):
        method = "GET" if body is None else "POST"
        theirs = error_of(outsider.call(method, f"/shells/{shell['id']}{path}", body))
        none = error_of(outsider.call(method, f"/shells/{nothing}{path}", body))
        assert {**theirs, "request_id": ""} == {**none, "request_id": ""}
    assert Run.objects.get().status == "queued"


def test_to_terminate_one_is_the_stop_of_its_run(owner: Caller, teammate: Caller) -> None:
    shell = opened(owner)
    a_claim(Run.objects.get())
    path = f"/shells/{shell['id']}/terminate"
    assert teammate.post(path).status_code == 403
    first = owner.post(path, {"note": "done"})
    assert (first.status_code, first.json()["status"]) == (202, "cancel_requested")
    again = owner.post(path)
    assert (again.status_code, again.json()["cancel_reason"]) == (202, "user")
    assert Run.objects.get().cancel_note == "done"


def test_to_keep_one_moves_its_end(owner: Caller, viewer: Caller) -> None:
    shell = opened(owner, on_disconnect={"grace_s": 5})
    path = f"/shells/{shell['id']}/keep"
    kept = owner.post(path, {"seconds": 3600})
    assert kept.status_code == 200
    assert kept.json()["grace_expires_at"] > shell["grace_expires_at"]
    assert viewer.post(path, {"seconds": 5}).status_code == 403
    for seconds in (0, -1, 86_401, "5", True, None):
        assert owner.post(path, {"seconds": seconds}).status_code == 400
    assert owner.post(path, json.dumps({"seconds": 1e999})).status_code == 400


@pytest.mark.parametrize("seconds", [0, 86_400])
def test_a_grace_may_be_none_and_a_day(owner: Caller, seconds: int) -> None:
    shell = opened(owner, on_disconnect={"grace_s": seconds})
    assert shell["on_disconnect"] == {"grace_s": float(seconds)}
    assert owner.post(f"/shells/{shell['id']}/keep", {"seconds": 86_400}).status_code == 200
    assert owner.post("/shells", {"on_disconnect": {"grace_s": seconds + 86_401}}).status_code == 400


def test_its_run_cannot_be_tried_again(owner: Caller) -> None:
    shell = opened(owner)
    owner.post(f"/shells/{shell['id']}/terminate")
    refused = owner.post(f"/runs/{shell['run']}/attempts", {"reason": "more"}, if_match="1")
    assert (refused.status_code, error_of(refused)["code"]) == (409, "run_is_shell")


def test_a_run_of_the_agent_is_refused_where_it_has_no_shell(owner: Caller) -> None:
    refused = owner.post("/runs", {"agent": "shell", "input": {}})
    assert (refused.status_code, error_of(refused)["param"]) == (400, "agent")


def test_an_agents_shell_is_taken_over_and_handed_back(owner: Caller, viewer: Caller) -> None:
    shell = an_agents_shell(owner.actor)
    path = f"/shells/{text_id('shell', shell.pk)}"
    links = owner.get(path).json()["links"]
    assert (links["take_over"], links["hand_back"]) == (f"/api/v1{path}/take_over", f"/api/v1{path}/hand_back")
    assert error_of(viewer.post(f"{path}/take_over"))["code"] == "forbidden"
    for _ in range(2):
        taken = owner.post(f"{path}/take_over")
        assert (taken.status_code, taken.json()["held_by"]) == (200, owner.actor.user.username)
        ShellOut.model_validate(taken.json())
    for _ in range(2):
        given = owner.post(f"{path}/hand_back")
        assert (given.status_code, given.json()["held_by"]) == (200, None)
    mine = opened(owner)
    assert (mine["links"]["take_over"], mine["links"]["hand_back"]) == (None, None)
    assert error_of(owner.post(f"/shells/{mine['id']}/take_over"))["code"] == "not_an_agents_shell"
