"""Streams with texts in them, and limits that a test sets."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from runs.access import Actor
from runs.conf import limits
from runs.decisions.core import Fact
from runs.models import Attempt, Run
from tests.builders import a_run
from tests.streaming.writing import emit, end

type SetLimits = Callable[..., None]


@pytest.fixture
def set_limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[SetLimits]:
    """Set what is in runs/conf.py for this test."""

    def change(**values: float) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"OUTLIVE_{name.upper()}", str(value))
        limits.cache_clear()

    yield change
    monkeypatch.undo()
    limits.cache_clear()


def a_text(message_id: str, pieces: int, *, ends: bool = True) -> list[Fact]:
    """Write a text of so many deltas."""
    facts = [Fact("text.start", {"message_id": message_id})]
    facts += [Fact("text.delta", {"message_id": message_id, "delta": f"{message_id}-{i} "}) for i in range(pieces)]
    return [*facts, Fact("text.end", {"message_id": message_id, "final": True})] if ends else facts


def a_told_run(owner: Actor, *facts: Fact, ends: bool = True, **more: Any) -> Run:
    """Make a run with these events behind its first one, and end it."""
    run = a_run(owner, **more)
    if facts:
        emit(run, *facts, rings=False)
    if ends:
        end(run, rings=False)
    run.refresh_from_db()
    return run


def make_older(run: Run, *, days: float) -> None:
    """Let the run and its attempts have ended so much earlier."""
    earlier = timedelta(days=days)
    Attempt.objects.filter(run=run, ended_at__isnull=False).update(ended_at=F("ended_at") - earlier)
    Run.objects.filter(pk=run.pk, terminal_at__isnull=False).update(terminal_at=F("terminal_at") - earlier)
