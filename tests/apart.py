"""Tests in several processes (pytest -n): which share one, which are begun first, and whose Redis each process has.

Each process gets a Redis database of its own, as pytest-django gives it its tables: two worlds on one Redis would take
each other's jobs. Loaded by `-p` in pyproject.toml, before Django's settings are.
"""

import os
from urllib.parse import urlsplit, urlunsplit

import pytest
from xdist.scheduler import LoadScopeScheduling

# Folders whose tests use one installation that is started for them.
SHARED = ("tests/acceptance/", "tests/chaos/")
# What takes minutes is begun first, so that no process is at it when the others have nothing left to do.
LONG = (
    *SHARED, "tests/conformance/", "tests/bench/", "tests/explore/", "tests/browser/test_shells",
    "tests/browser/test_whole_stack.py", "tests/browser/test_faults.py", "tests/browser/test_connection.py",
)  # fmt: skip


class TogetherScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hand out files, or folders that share an installation, in order. (xdist_group does nothing under pytest 9.2.)"""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)


def together(nodeid: str) -> str:
    """Name what the test shares a process with: its folder or its file."""
    return next((folder for folder in SHARED if nodeid.startswith(folder)), nodeid.partition("::")[0])


def rank(nodeid: str) -> int:
    """Tell how early the test is begun."""
    return next((place for place, long in enumerate(LONG) if nodeid.startswith(long)), len(LONG))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> TogetherScheduling:
    """Let xdist hand out the tests so."""
    config.option.loadscopereorder = False
    return TogetherScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the long ones first."""
    items.sort(key=lambda item: rank(item.nodeid))


def _step_aside() -> None:
    worker, url = os.environ.get("PYTEST_XDIST_WORKER", ""), os.environ.get("REDIS_URL", "")
    if worker.startswith("gw") and url:
        os.environ["REDIS_URL"] = with_database(url, int(worker.removeprefix("gw")) + 1)


def with_database(url: str, number: int) -> str:
    """Name another database of the same Redis: by the path, or by the query of a socket's address."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return f"unix://{parts.path}?db={number}"
    return urlunsplit(parts._replace(path=f"/{number}"))


_step_aside()
