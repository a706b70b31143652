"""The invariants of a run, on Django's connection."""

from uuid import UUID

from runs.database import fetch
from runs.models import Run
from tests.explore.invariants import READ, Rows, check_rows


def read(run_id: UUID) -> Rows:
    """Read everything of a run that the invariants speak of."""
    (rows,) = fetch(READ, {"run": run_id})
    return rows


def check(run_id: UUID) -> Run:
    """Assert every invariant of one run and return it."""
    check_rows(read(run_id))
    return Run.objects.get(pk=run_id)
