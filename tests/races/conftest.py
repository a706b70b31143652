"""Real workers for the races that need one; see tests/runs/execution/conftest.py."""

from tests.runs.execution.conftest import a_worker, dsn, person

__all__ = ["a_worker", "dsn", "person"]
