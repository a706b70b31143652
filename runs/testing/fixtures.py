"""The fixture `outlive`: needs pytest-django, a PostgreSQL in DATABASE_URL and a Redis in REDIS_URL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from runs.testing.lab import Outlive
from runs.testing.target import EffectTarget


@pytest.fixture
def outlive(transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Outlive]:
    """An installation of the test's own; nothing of it is left afterwards."""
    with EffectTarget(tmp_path) as target:
        for name, value in target.settings.items():
            monkeypatch.setenv(name, value)
        lab = Outlive(tmp_path, target)
        try:
            yield lab
        finally:
            lab.close()
