"""POST /runs: what it takes, what it refuses and how it names the field."""

import json
from typing import Any

import pytest

from runs.api.schemas import RunOut
from runs.models import Event, Run
from tests.runs.api.conftest import Caller, error_of

GOOD: dict[str, Any] = {"agent": "echo", "input": {"text": "hello"}}


def test_a_new_run_is_201_with_its_address_and_its_whole_object(owner: Caller) -> None:
    response = owner.post("/runs", {**GOOD, "title": "My run", "deadline_s": 60, "metadata": {"ticket": "7"}})
    run = response.json()
    assert response.status_code == 201
    assert response["Location"] == f"/api/v1/runs/{run['id']}"
    assert response["ETag"] == f'"{run["version"]}-{run["head_seq"]}"'
    RunOut.model_validate(run)
    assert (run["object"], run["status"], run["title"], run["agent"]) == ("run", "queued", "My run", "echo")
    assert run["input"] == {"text": "hello", "times": 1}
    assert run["metadata"] == {"ticket": "7"}
    assert run["deadline_at"] is not None
    assert run["cancel"] is None
    assert run["waiting"] is None
    assert run["unsettled_operations"] == []
    assert Event.objects.get(seq=1).type == "run.created"


def test_making_a_run_costs_a_bounded_number_of_queries(owner: Caller, django_assert_max_num_queries: Any) -> None:
    owner.create()  # the token's last_used_at is written at most once a minute
    with django_assert_max_num_queries(12):
        owner.create()


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"agent": "nobody"}, "agent"),
        ({"agent": ""}, "agent"),
        ({"agent": 5}, "agent"),
        ({"agent": None}, "agent"),
        ({"colour": "red"}, "colour"),
        ({"conversation_id": "conv_1"}, "conversation_id"),
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": "hello"}, "input"),
        ({"input": {}}, "input.text"),
        ({"input": {"text": ""}}, "input.text"),
        ({"input": {"text": "x" * 1001}}, "input.text"),
        ({"input": {"text": 5}}, "input.text"),
        ({"input": {"text": "a", "times": True}}, "input.times"),
        ({"input": {"text": "a", "times": "2"}}, "input.times"),
        ({"input": {"text": "a", "more": 1}}, "input.more"),
        ({"input": {"text": "a\x00b"}}, "input.text"),
        ({"input": {"text": "a\ud800b"}}, "input.text"),
        ({"title": ""}, "title"),
        ({"title": "  "}, "title"),
        ({"title": 5}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"title": "a\x00"}, "title"),
        ({"metadata": []}, "metadata"),
        ({"metadata": {"a": ["b", {"c": "\udfff"}]}}, "metadata.a.1.c"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"deadline_s": -1}, "deadline_s"),
        ({"deadline_s": True}, "deadline_s"),
        ({"deadline_s": "60"}, "deadline_s"),
        ({"deadline_s": 10**12}, "deadline_s"),
        ({"on_disconnect": "explode"}, "on_disconnect"),
        ({"on_disconnect": 5}, "on_disconnect"),
        ({"on_disconnect": {"grace_s": -1}}, "on_disconnect.grace_s"),
        ({"on_disconnect": {"grace_s": 86_401}}, "on_disconnect.grace_s"),
        ({"on_disconnect": {"grace_s": True}}, "on_disconnect.grace_s"),
        ({"on_disconnect": {"grace_s": 1, "x": 1}}, "on_disconnect.x"),
        ({"on_disconnect": {}}, "on_disconnect.grace_s"),
        ({"stream": "yes"}, "stream"),
    ],
)
def test_a_wrong_field_is_400_and_named(owner: Caller, change: dict[str, Any], param: str) -> None:
    response = owner.post("/runs", {**GOOD, **change})
    error = error_of(response)
    assert (response.status_code, error["param"]) == (400, param), error
    assert error["type"] == "invalid_request_error"
    assert error["retryable"] is False
    assert Run.objects.count() == 0


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_number_that_is_no_json_is_400(owner: Caller, literal: str) -> None:
    response = owner.post("/runs", json.dumps({**GOOD, "deadline_s": 1}).replace("1}", f"{literal}}}"))
    assert response.status_code == 400
    assert error_of(response)["code"] in {"invalid_json", "invalid_request"}
    assert Run.objects.count() == 0


@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"agent": "echo" "input": {}}', b"[" * 100_000, b"1" * 5000],
)
def test_a_body_that_is_no_json_object_is_400(owner: Caller, raw: bytes) -> None:
    response = owner.post("/runs", raw)
    assert response.status_code == 400, response.content
    error_of(response)


def test_deep_nesting_is_400_and_its_place_is_named(owner: Caller) -> None:
    deep: Any = "x"
    for _ in range(200):
        deep = [deep]
    response = owner.post("/runs", {**GOOD, "metadata": {"deep": deep}})
    assert response.status_code == 400
    assert error_of(response)["param"].startswith("metadata.deep.0.0")


def test_the_six_characters_of_an_escaped_nul_are_kept(owner: Caller) -> None:
    run = owner.create(input={"text": "\\u0000"})
    assert run["input"]["text"] == "\\u0000"


def test_a_nul_in_a_key_is_400_without_a_nul_in_the_answer(owner: Caller) -> None:
    response = owner.post("/runs", {**GOOD, "metadata": {"a\x00b": 1}})
    assert response.status_code == 400
    assert error_of(response)["param"] == "metadata"


def test_the_answer_is_ascii_only(owner: Caller) -> None:
    response = owner.post("/runs", {**GOOD, "input": {"text": "\u2028 你好 \U0001f469"}})
    assert response.content.isascii()
    assert response.json()["input"]["text"] == "\u2028 你好 \U0001f469"


def test_another_content_type_is_415(owner: Caller) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        response = owner.post("/runs", json.dumps(GOOD), content_type=kind)
        assert response.status_code in (415, 400), kind
        if response.status_code == 415:
            assert error_of(response)["param"] == "Content-Type"
    assert owner.post("/runs", json.dumps(GOOD), content_type="text/plain").status_code == 415
    assert Run.objects.count() == 0


def test_a_body_above_the_limit_is_413(owner: Caller) -> None:
    response = owner.post("/runs", {**GOOD, "metadata": {"pad": "x" * (1 << 20)}})
    assert response.status_code == 413
    assert error_of(response)["code"] == "too_large"
    assert Run.objects.count() == 0


def test_an_input_above_its_own_limit_is_413_and_named(owner: Caller) -> None:
    response = owner.post("/runs", {**GOOD, "input": {"text": "x" * 300_000}})
    assert response.status_code == 413
    assert error_of(response)["param"] == "input.text"


def test_the_same_key_and_body_bring_back_the_same_run(owner: Caller) -> None:
    first = owner.post("/runs", GOOD, idempotency_key="k-1")
    again = owner.post("/runs", GOOD, idempotency_key="k-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert "Idempotent-Replayed" not in first
    assert again["Idempotent-Replayed"] == "true"
    assert first.json()["id"] == again.json()["id"]
    assert again["Location"] == first["Location"]
    assert Run.objects.count() == 1


def test_the_same_key_with_another_body_is_422(owner: Caller) -> None:
    owner.post("/runs", GOOD, idempotency_key="k-1")
    response = owner.post("/runs", {**GOOD, "title": "Another"}, idempotency_key="k-1")
    assert response.status_code == 422
    assert error_of(response)["code"] == "idempotency_mismatch"
    assert Run.objects.count() == 1


def test_a_key_belongs_to_its_caller(owner: Caller, teammate: Caller) -> None:
    assert owner.post("/runs", GOOD, idempotency_key="k-1").status_code == 201
    assert teammate.post("/runs", GOOD, idempotency_key="k-1").status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 256, "a b", "ä", "a\tb"])
def test_a_malformed_key_is_400_and_named(owner: Caller, key: str) -> None:
    response = owner.post("/runs", GOOD, idempotency_key=key)
    assert response.status_code == 400
    assert error_of(response)["param"] == "Idempotency-Key"
    assert Run.objects.count() == 0


def test_a_create_that_was_refused_does_not_use_its_key_up(owner: Caller) -> None:
    assert owner.post("/runs", {**GOOD, "agent": "nobody"}, idempotency_key="k-1").status_code == 400
    assert owner.post("/runs", GOOD, idempotency_key="k-1").status_code == 201


def test_a_viewer_may_not_start_runs(viewer: Caller) -> None:
    response = viewer.post("/runs", GOOD)
    assert response.status_code == 403
    assert error_of(response)["type"] == "permission_error"
