"""Agents that do what a case needs, and the standing checks of every case."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from runs.database import fetch
from runs.testing.lab import Outlive
from runs.testing.run import RunUnderTest
from tests.explore import invariants

type Check = Callable[[RunUnderTest], None]


@pytest.fixture
def check(outlive: Outlive) -> Check:
    """The standing checks: the log, one end, the ledger against the target; and nothing moves afterwards."""

    def look(run: RunUnderTest) -> None:
        (rows,) = fetch(invariants.READ, {"run": run.pk})
        invariants.check_rows(rows)
        landed = {key: count for key, count in outlive.target.effects.items() if run.id.split("_")[1] in key}
        tools = {entry.key: entry.tool for entry in run.ledger}
        rows["operations"] = [o for o in rows["operations"] if tools.get(o["key"]) in ("create_invoice", "send_mail")]
        invariants.check_effects(rows, landed)

    return look


def statuses_until_end(run: RunUnderTest, *, seconds: float = 20.0) -> list[str]:
    """Carry the run to its end and return each status that was seen, in order, repeats left out."""
    seen: list[str] = []
    give_up_at = time.monotonic() + seconds
    while True:
        row = run.row
        if not seen or seen[-1] != row.status:
            seen.append(row.status)
        if row.terminal_at is not None:
            return seen
        assert time.monotonic() < give_up_at, seen
        run.tend()
        time.sleep(0.005)


def counted(types: list[str], *names: str) -> dict[str, Any]:
    """Count these events."""
    return {name: types.count(name) for name in names}
