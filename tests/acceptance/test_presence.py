"""The same scripted agent as `cancel` and as `continue`, cut in mid-stream and in mid-tool; reloads; stuck readers."""

import time

import pytest

from tests.acceptance.conftest import Follow
from tests.acceptance.follower import Follower
from tests.acceptance.test_newcomer import assert_exact
from tests.stack import LiveStack, is_alive, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(240)]
GRACE_AND_STOP_SECONDS = 5.0 + 10.0


def start(stack: LiveStack, follow: Follow, agent: str, key: str, **more: object) -> tuple[str, Follower]:
    """Start a probe that streams (or runs a tool) for ever, watched by its page."""
    run_id = stack.start(agent, {"key": key, "rate": 50, "n": 1_000_000} | more)["id"]
    return run_id, follow(run_id, role="control")


def test_a_cancel_run_ends_when_its_page_is_gone_in_mid_stream(stack: LiveStack, follow: Follow) -> None:
    run_id, page = start(stack, follow, "probe_cancel", "gone-stream")
    page.until("text.delta", count=3)
    page.cut()
    run = stack.wait(run_id, seconds=GRACE_AND_STOP_SECONDS + 15)
    assert (run["status"], run["cancel"]["reason"]) == ("cancelled", "client_gone")
    deltas = stack.probe("gone-stream").deltas
    assert [e["outcome"] for e in run["cancel"]["effects"]] == ["abandoned"]
    time.sleep(0.3)  # the model would have written fifteen more by now
    assert stack.probe("gone-stream").deltas == deltas


def test_a_cancel_run_ends_when_its_page_is_gone_in_mid_tool(stack: LiveStack, follow: Follow) -> None:
    run_id, page = start(stack, follow, "probe_cancel", "gone-tool", n=0, rate=0, tool="stubborn")
    child = wait_until(lambda: stack.probe("gone-tool").child, what="the tool's process")
    page.cut()
    run = stack.wait(run_id, seconds=GRACE_AND_STOP_SECONDS + 15)
    assert (run["status"], run["cancel"]["reason"]) == ("cancelled", "client_gone")
    assert not is_alive(child)
    assert [(e["outcome"], e["proof"]) for e in run["cancel"]["effects"]] == [("stopped", "process tree empty")]


def test_a_reload_within_the_grace_changes_nothing(stack: LiveStack, follow: Follow) -> None:
    run_id, page = start(stack, follow, "probe_cancel", "reload", n=400)
    page.until("text.delta", count=3)
    page.cut()
    page.open()
    page.to_the_end()
    run = stack.wait(run_id)
    assert (run["status"], run["cancel"]) == ("completed", None)
    assert_exact(page.events, stack.events(run_id))


def test_a_continue_run_completes_without_its_page(stack: LiveStack, follow: Follow) -> None:
    run_id, page = start(stack, follow, "probe", "continue", n=300, tool="invoice")
    page.until("text.delta", count=3)
    page.cut()
    run = stack.wait(run_id)
    assert run["status"] == "completed"
    assert list(stack.effects(run_id).values()) == [1]


def test_a_reader_that_stops_reading_is_sent_away_and_the_run_goes_on(stack: LiveStack, follow: Follow) -> None:
    run_id = stack.start("probe", {"key": "stuck", "n": 5_000, "pad": 4_000})["id"]
    stuck = follow(run_id)
    stuck.until("ready")
    good = follow(run_id)
    good.to_the_end()
    assert stack.wait(run_id)["status"] == "completed"
    assert good.events[-1]["type"] == "run.completed"
    # The other one has not read meanwhile: the server gives up on it, and it may come back with its cursor.
    wait_until(lambda: not is_served(stack, stuck), seconds=60, what="the eviction of the stuck reader")
    stuck.to_the_end()
    assert [e["type"] for e in stuck.events][-1:] != ["run.completed"]
    stuck.open().to_the_end()
    assert_exact(stuck.events, stack.events(run_id))


def is_served(stack: LiveStack, reader: Follower) -> bool:
    """Tell whether the web process still holds its end of the reader's connection."""
    connections = stack.the("streaming.server").net_connections("tcp")
    return any(c.raddr and c.raddr.port == reader.port for c in connections)
