"""Readers that make no long waits between their connections."""

import pytest


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runs.reading.machine.SHORTEST_WAIT_SECONDS", 0.01)
    monkeypatch.setattr("runs.reading.machine.LONGEST_WAIT_SECONDS", 0.1)
