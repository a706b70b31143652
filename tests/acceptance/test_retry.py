"""A retry on the whole installation: what failed goes on, and each operation key has one effect."""

import pytest

from tests.acceptance.conftest import Follow
from tests.acceptance.test_stop import assert_one_end
from tests.stack import LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]


def retry(stack: LiveStack, run_id: str, **body: object) -> dict:
    answer = stack.client.post(f"/runs/{run_id}/attempts", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def first_attempt(stack: LiveStack, run_id: str) -> list[dict]:
    return stack.client.get(f"/runs/{run_id}/attempts/1/events", params={"limit": 1000}).json()["data"]


def test_a_refused_call_is_sent_again_and_the_streamed_text_is_not_computed_again(
    stack: LiveStack, follow: Follow
) -> None:
    stack.switch(refuse=True)
    run_id = stack.start("probe", {"key": "retry-refused", "n": 5, "tool": "invoice"})["id"]
    run = stack.wait(run_id)
    assert (run["status"], stack.effects(run_id)) == ("failed", {})
    stack.switch()
    assert retry(stack, run_id, reason="the target is well again")["attempt"] == 2
    reader = follow(run_id)
    reader.to_the_end()
    run = stack.wait(run_id)
    assert (run["status"], run["attempt"]) == ("completed", 2), run
    assert list(stack.effects(run_id).values()) == [1]
    assert stack.probe("retry-refused").deltas == 5
    events = stack.events(run_id)
    assert_one_end(events)
    assert (events[0]["type"], events[0]["data"]["retry_of"]) == ("attempt.created", 1)
    text = [e["data"]["delta"] for e in events if e["type"] == "text.delta"]
    before = "".join(e["data"]["delta"] for e in first_attempt(stack, run_id) if e["type"] == "text.delta")
    assert "".join(text) == before
    assert_one_end(first_attempt(stack, run_id))


def test_after_a_verdict_the_run_goes_on_with_the_effect_that_is_there(stack: LiveStack) -> None:
    stack.switch(drop_after_commit=True, lookup_fails=True)
    run_id = stack.start("probe", {"key": "retry-verdict", "n": 0, "tool": "invoice"})["id"]
    wait_until(lambda: stack.effects(run_id), what="the effect whose answer is lost")
    stack.stop(run_id)
    run = stack.wait(run_id)
    assert run["status"] == "needs_reconciliation"
    refused = stack.client.post(f"/runs/{run_id}/attempts", json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "run_needs_reconciliation")
    stack.switch()
    stack.wait(run_id, "cancelled")  # the supervisor has looked it up
    retry(stack, run_id)
    run = stack.wait(run_id)
    assert run["status"] == "completed", run
    assert run["result"]["tool"]["invoice_id"]
    assert list(stack.effects(run_id).values()) == [1]


def test_do_it_again_has_a_key_and_an_effect_of_its_own(stack: LiveStack) -> None:
    run_id = stack.start("probe", {"key": "retry-redo", "n": 0, "tool": "invoice"})["id"]
    first = stack.wait(run_id)["result"]["tool"]["invoice_id"]
    (operation,) = stack.client.get("/operations", params={"run_id": run_id}).json()["data"]
    retry(stack, run_id, reuse="nothing")
    assert stack.wait(run_id)["result"]["tool"]["invoice_id"] == first
    retry(stack, run_id, redo=[operation["id"]])
    assert stack.wait(run_id)["result"]["tool"]["invoice_id"] != first
    assert stack.effects(run_id) == {operation["key"]: 1, f"{operation['key']}#redo-1": 1}


def test_a_retry_from_the_command_line_follows_the_new_attempt(stack: LiveStack) -> None:
    run_id = stack.start("probe", {"key": "retry-cli", "n": 3})["id"]
    stack.wait(run_id)
    ran = stack.cli("run", "retry", run_id, "--reason", "once more")
    assert ran.returncode == 0, ran.stderr
    assert "Attempt 2, retry of 1: once more" in ran.stdout
