"""In CI a test has one second try where a loaded machine may break it: processes, clocks and Chromium do not wait.

Where the order of things is what is tested, and the test makes it itself, there is none (FIRM). Loaded by `-p` in
pyproject.toml. Each test that needed it is listed at the end with its first failure, so that it is seen and mended. A
test that fails twice fails. Where the environment has no CI there is no second try.
"""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
import pytest_timeout

FIRM = {Path(__file__).parent / name for name in ("explore", "model", "races", "runs/decisions")}
_tries = 1  # of the test that runs now


def of_this_try(key: str) -> str:
    """Give a name of this try alone: what the first one left in a shared installation is none of the second's."""
    return key if _tries == 1 else f"{key}-again"


def pytest_configure(config: pytest.Config) -> None:
    """Let the list at the end have the first failures."""
    config.option.rerun_show_tracebacks = True


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Mark those that have a second try."""
    if not os.environ.get("CI"):
        return
    for item in items:
        if not is_firm(item.path):
            item.add_marker(pytest.mark.flaky(reruns=1))


def is_firm(path: Path) -> bool:
    """Say whether the tests of a file have no second try."""
    return not FIRM.isdisjoint(path.parents)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Give the second try a time limit of its own: the first one's went with its failure."""
    global _tries
    _tries = getattr(item, "execution_count", 1)
    if _tries > 1:
        settings = pytest_timeout.get_env_settings(item.config)
        if limit := item.get_closest_marker("timeout"):
            settings = settings._replace(timeout=limit.args[0])
        if settings.timeout:
            item.config.hook.pytest_timeout_set_timer(item=item, settings=settings)
