"""One installation for all acceptance and browser tests of a session."""

from collections.abc import Iterator

import pytest

from tests.stack import LiveStack, live_stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The installation: what `make up` starts, with data of its own."""
    with live_stack(tmp_path_factory.mktemp("outlive")) as running:
        yield running


@pytest.fixture(autouse=True)
def _good_target(stack: LiveStack) -> None:
    """Let each test begin with a demo target that behaves well."""
    stack.switch()
