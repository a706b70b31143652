"""A deploy on the whole installation: workers get SIGTERM, their runs go on elsewhere, and nobody's run ends by it."""

import os
import signal

import pytest

from tests.acceptance.test_stop import assert_one_end
from tests.stack import LiveStack, is_alive, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(400)]


def replace_workers(stack: LiveStack) -> list[int]:
    """Send SIGTERM to every worker, and return who they were; their parent starts others."""
    pids = [worker.pid for worker in stack.processes("runs.execution.worker_main")]
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    return pids


def reasons_of(stack: LiveStack, run_id: str) -> list[str]:
    """Say why claims of the run were lost."""
    return [e["data"]["reason"] for e in stack.events(run_id) if e["type"] == "claim.lost"]


def test_a_deploy_hands_over_what_streams_what_steps_and_what_waits(stack: LiveStack) -> None:
    """B11 (c): a stream that outlasts the drain, a run of many steps, and a question that waits."""
    stream = stack.start("probe", {"key": "deploy-stream", "n": 0, "text": "one two three", "hold_at": 2})["id"]
    asked = stack.start("probe", {"key": "deploy-ask", "n": 0, "ask": True})["id"]
    steps = stack.start("probe", {"key": "deploy-steps", "n": 0, "steps": 1_000})["id"]
    stack.wait(asked, "waiting")
    wait_until(lambda: stack.probe("deploy-stream").deltas >= 1, what="the stream")
    wait_until(lambda: stack.run(steps)["head_seq"] > 100, what="the steps")
    before = stack.run(asked)
    gone = replace_workers(stack)
    assert stack.wait(steps, seconds=240)["status"] == "completed"
    wait_until(lambda: not any(map(is_alive, gone)), seconds=60, what="the end of the drain")
    wait_until(lambda: "drain" in reasons_of(stack, stream), seconds=30, what="the hand-over of the stream")
    assert stack.run(asked)["version"] == before["version"]  # nobody touches a healthy waiting run
    stack.probe("deploy-stream").release()
    run = stack.wait(stream, seconds=60)
    assert (run["status"], run["result"]["characters"], run["cancel"]) == ("completed", len("one two three"), None)
    (question_id,) = before["waiting"]["question_ids"]
    answer = stack.client.post(f"/runs/{asked}/answers/{question_id}", json={"value": {"approve": True}})
    assert answer.status_code == 200
    assert stack.wait(asked, seconds=60)["status"] == "completed"
    for run_id in (stream, asked, steps):
        assert set(reasons_of(stack, run_id)) <= {"drain"}
        assert_one_end(stack.events(run_id))
    answers = [e for e in stack.events(stream) if e["type"] == "text.end" and e["data"]["final"]]
    assert len(answers) == 1


def test_a_write_in_flight_at_a_deploy_is_known_afterwards_and_done_once(stack: LiveStack) -> None:
    stack.switch(delay_seconds=3)
    run_id = stack.start("probe", {"key": "deploy-write", "n": 0, "tool": "invoice"})["id"]
    wait_until(lambda: "tool.dispatched" in [e["type"] for e in stack.events(run_id)], what="the dispatch")
    replace_workers(stack)
    run = stack.wait(run_id, seconds=90)
    assert (run["status"], run["cancel"]) == ("completed", None)
    assert list(stack.effects(run_id).values()) == [1]
    assert_one_end(stack.events(run_id))


@pytest.mark.parametrize("is_stop_first", [True, False])
def test_a_stop_beside_a_deploy_is_the_persons(stack: LiveStack, is_stop_first: bool) -> None:
    """B11 (e): within a moment of each other, in either order."""
    key = f"deploy-stop-{is_stop_first}"
    run_id = stack.start("probe", {"key": key, "n": 1_000_000, "rate": 100})["id"]
    wait_until(lambda: stack.probe(key).deltas >= 3, what="the stream")
    if is_stop_first:
        stack.stop(run_id)
        replace_workers(stack)
    else:
        replace_workers(stack)
        stack.stop(run_id)
    run = stack.wait(run_id, seconds=60)
    assert (run["status"], run["cancel"]["reason"]) == ("cancelled", "user")
    assert_one_end(stack.events(run_id))


def test_a_killed_worker_is_named_as_lost_and_nobody_as_having_stopped_the_run(stack: LiveStack) -> None:
    """B11 (d)."""
    run_id = stack.start("probe", {"key": "deploy-kill", "n": 0, "text": "one two three", "hold_at": 2})["id"]
    wait_until(lambda: stack.probe("deploy-kill").deltas >= 1, what="the stream")
    for worker in stack.processes("runs.execution.worker_main"):
        worker.kill()
    wait_until(lambda: "worker_lost" in reasons_of(stack, run_id), what="the news of its death")
    stack.probe("deploy-kill").release()
    run = stack.wait(run_id, seconds=90)
    assert (run["status"], run["cancel"]) == ("completed", None)
    assert_one_end(stack.events(run_id))


def test_a_step_longer_than_the_lease_is_done_once_by_one_claim(stack: LiveStack) -> None:
    """B35: the lease of 5 s is renewed while the step goes on; the write behind it happens once."""
    run_id = stack.start("probe", {"key": "long", "n": 120, "rate": 10, "tool": "invoice"})["id"]
    run = stack.wait(run_id, seconds=120)
    events = stack.events(run_id)
    assert run["status"] == "completed"
    assert [e["type"] for e in events].count("claim.started") == 1
    assert list(stack.effects(run_id).values()) == [1]
    assert stack.probe("long").deltas == 120
