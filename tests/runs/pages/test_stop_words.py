import pytest

from runs.fold import empty_view
from runs.pages.stop_words import clock, stop_line


def line(status, *, is_late=False, **changes):
    return stop_line(empty_view() | {"status": status} | changes, people={"1": "mara"}, is_late=is_late)


def cancel(**changes):
    return {"by": 1, "reason": "user", "requested_at": "2026-01-01T12:00:03.000Z", "effects": []} | changes


def test_running_says_nothing():
    assert line("running") == ""


def test_waiting_says_for_what():
    assert line("waiting", waiting={"waiting_for": "input"}).startswith("Waits for your answer")
    assert "12:05:00 UTC" in line("waiting", waiting={"waiting_for": "timer", "wake_at": "2026-01-01T12:05:00Z"})


@pytest.mark.parametrize(("steps", "tail"), [(0, "start."), (1, "Waiting for 1 step."), (2, "Waiting for 2 steps.")])
def test_stopping_counts_what_it_waits_for(steps, tail):
    said = line("cancelling", cancel=cancel(), steps=[{"state": "open"}] * steps)
    assert said.startswith("Recorded 12:00:03 UTC.")
    assert said.endswith(tail)


def test_stopped_names_the_person_and_what_was_done():
    effects = [{"name": "a", "outcome": "committed"}, {"name": "b", "outcome": "stopped"}, "x"]
    said = line("cancelled", terminal_at="2026-01-01T12:00:09Z", cancel=cancel(effects=effects))
    assert said == "By mara, 12:00:09 UTC. Already done before the stop: a."


def test_stopped_by_nobody_names_the_reason():
    assert line("cancelled", cancel=cancel(by=None, reason="deadline")) == "Stopped at its deadline."
    assert line("cancelled", cancel=cancel(by=None, reason="martians")) == "Stopped by a person."
    assert line("cancelled") == "Stopped by a person."


def test_only_a_late_stop_is_told_that_it_was_late():
    assert line("completed") == ""
    assert line("completed", is_late=True) == "It finished before your stop took effect."


@pytest.mark.parametrize("text", [None, "", "yesterday"])
def test_a_time_that_is_none_is_a_question_mark(text):
    assert clock(text) == "?"


@pytest.mark.parametrize("status", ["cancelled", "needs_reconciliation"])
def test_a_stop_that_was_forced_says_so(status):
    said = line(status, cancel=cancel(forced={"by": 2, "note": "", "at": "2026-01-01T12:00:09Z"}))
    assert said.endswith(" An operator ended it without waiting for its worker.")
    assert "operator" not in line(status, cancel=cancel(forced=None))
