"""Stop at three stages of a step, and what becomes of a call whose answer is lost."""

import pytest

from tests.acceptance.conftest import Follow
from tests.stack import LiveStack, is_alive, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]
TERMINAL = {"run.completed", "run.failed", "run.cancelled", "run.needs_reconciliation"}
EPILOGUE = {"operation.settled", "operation.late_receipt", "run.reconciled"}


def assert_one_end(events: list[dict]) -> None:
    """Seq without a hole, one terminal event, nothing after it but the epilogue, no dispatch after the request."""
    types = [e["type"] for e in events]
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    ends = [i for i, t in enumerate(types) if t in TERMINAL]
    assert len(ends) == 1
    assert set(types[ends[0] + 1 :]) <= EPILOGUE
    if "run.cancel_requested" in types:
        after = types[types.index("run.cancel_requested") :]
        assert not {"tool.dispatched", "model.started", "step.started"} & set(after)


def test_a_stop_while_the_model_streams_keeps_the_half_text_as_not_final(stack: LiveStack, follow: Follow) -> None:
    run_id = stack.start("probe", {"key": "stop-stream", "n": 1_000_000, "rate": 100})["id"]
    reader = follow(run_id)
    reader.until("text.delta", count=5)
    answer = stack.stop(run_id)
    assert answer.status_code == 202
    reader.to_the_end()
    run = stack.wait(run_id)
    assert run["status"] == "cancelled"
    (effect,) = run["cancel"]["effects"]
    assert (effect["outcome"], effect["provider_side"]) == ("abandoned", "stopped")
    (end,) = [e["data"] for e in reader.events if e["type"] == "text.end"]
    assert (end["final"], end["reason"]) == (False, "stop")
    assert_one_end(stack.events(run_id))
    again = stack.stop(run_id)
    assert (again.status_code, again.json()["id"]) == (200, answer.json()["id"])


@pytest.mark.parametrize("tool", ["sleep", "stubborn", "setsid"])
def test_a_stop_while_a_command_runs_ends_its_whole_tree(stack: LiveStack, tool: str) -> None:
    key = f"stop-{tool}"
    run_id = stack.start("probe", {"key": key, "n": 0, "tool": tool})["id"]
    child = wait_until(lambda: stack.probe(key).child, what="the command")
    stack.stop(run_id)
    run = stack.wait(run_id)
    assert run["status"] == "cancelled"
    assert [(e["outcome"], e["proof"]) for e in run["cancel"]["effects"]] == [("stopped", "process tree empty")]
    assert not is_alive(child)
    assert_one_end(stack.events(run_id))


def test_a_stop_after_a_write_was_sent_waits_for_its_receipt(stack: LiveStack) -> None:
    stack.switch(delay_seconds=6)
    run_id = stack.start("probe", {"key": "stop-sent", "n": 0, "tool": "invoice"})["id"]
    wait_until(lambda: "tool.dispatched" in [e["type"] for e in stack.events(run_id)], what="the dispatch")
    wait_until(lambda: stack.effects(run_id), what="the effect at the target")
    answer = stack.stop(run_id)
    assert [e["outcome"] for e in answer.json()["effects"]] == ["pending"]
    run = stack.wait(run_id)
    assert run["status"] == "cancelled"
    assert [e["outcome"] for e in run["cancel"]["effects"]] == ["committed"]
    assert list(stack.effects(run_id).values()) == [1]
    assert_one_end(stack.events(run_id))


def test_a_lost_answer_is_looked_up_and_the_run_completes(stack: LiveStack) -> None:
    stack.switch(drop_after_commit=True, times=1)
    run_id = stack.start("probe", {"key": "lost-answer", "n": 0, "tool": "invoice"})["id"]
    run = stack.wait(run_id)
    assert run["status"] == "completed", run
    assert list(stack.effects(run_id).values()) == [1]
    (result,) = [e["data"] for e in stack.events(run_id) if e["type"] == "tool.result"]
    assert (result["ok"], result["proof"]) == (True, "look-up")


def test_what_nobody_can_tell_waits_for_an_operator(stack: LiveStack) -> None:
    stack.switch(drop_after_commit=True, lookup_fails=True)
    run_id = stack.start("probe", {"key": "verify", "n": 0, "tool": "invoice"})["id"]
    wait_until(lambda: stack.effects(run_id), what="the effect whose answer is lost")
    stack.stop(run_id)
    run = stack.wait(run_id)
    assert run["status"] == "needs_reconciliation"
    assert [e["outcome"] for e in run["cancel"]["effects"]] == ["unknown"]
    (operation_id,) = run["unsettled_operations"]
    path = f"/operations/{operation_id}"
    listed = stack.client.get("/operations", params={"state": "unknown"}).json()["data"]
    (operation,) = [o for o in listed if o["id"] == operation_id]
    settled = stack.client.post(
        f"{path}/settle", json={"outcome": "happened", "note": "seen at the target"},
        headers={"If-Match": f'"{operation["version"]}"'},
    )  # fmt: skip
    assert settled.status_code == 200, settled.text
    run = stack.wait(run_id, "cancelled")
    events = stack.events(run_id)
    assert [e["type"] for e in events][-2:] == ["operation.settled", "run.reconciled"]
    assert_one_end(events)
    assert list(stack.effects(run_id).values()) == [1]


def test_b08_what_can_be_looked_up_again_is_settled_by_the_supervisor(stack: LiveStack) -> None:
    stack.switch(drop_after_commit=True, lookup_fails=True)
    run_id = stack.start("probe", {"key": "verify-later", "n": 0, "tool": "invoice"})["id"]
    wait_until(lambda: stack.effects(run_id), what="the effect whose answer is lost")
    stack.stop(run_id)
    assert stack.wait(run_id)["status"] == "needs_reconciliation"
    stack.switch()
    run = stack.wait(run_id, "cancelled")
    assert [e["outcome"] for e in run["cancel"]["effects"]] == ["committed"]
    events = stack.events(run_id)
    assert [e["type"] for e in events][-2:] == ["operation.settled", "run.reconciled"]
    assert_one_end(events)
    assert list(stack.effects(run_id).values()) == [1]


def test_a_queued_run_is_stopped_at_once_with_every_worker_down(stack: LiveStack) -> None:
    for parent in stack.processes("outlive_workers"):
        parent.suspend()
    workers = stack.processes("runs.execution.worker_main")
    for worker in workers:
        worker.suspend()
    try:
        run_id = stack.start("probe", {"key": "no-worker", "n": 1})["id"]
        answer = stack.stop(run_id)
        assert (answer.status_code, answer.json()["status"]) == (202, "cancelled")
    finally:
        for process in [*workers, *stack.processes("outlive_workers")]:
            process.resume()
    assert_one_end(stack.events(run_id))
    assert stack.probe("no-worker").deltas == 0


def test_a_question_is_answered_over_the_api_and_the_run_goes_on(stack: LiveStack) -> None:
    run_id = stack.start("probe", {"key": "ask", "n": 3, "ask": True})["id"]
    run = stack.wait(run_id, "waiting")
    (question_id,) = run["waiting"]["question_ids"]
    path = f"/runs/{run_id}/answers/{question_id}"
    assert stack.client.post(path, json={"value": "yes"}).status_code == 400
    assert stack.client.post(path, json={"value": {"approve": True}}).status_code == 200
    assert stack.client.post(path, json={"value": {"approve": True}}).status_code == 200
    assert stack.client.post(path, json={"value": {"approve": False}}).status_code == 409
    run = stack.wait(run_id)
    assert (run["status"], run["result"]["approved"]) == ("completed", True)
    assert stack.probe("ask").deltas == 3  # the stream before the question was not computed again
