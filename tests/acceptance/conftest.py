"""What acceptance tests begin with, and the readers that they open."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.acceptance.follower import Follower
from tests.stack import LiveStack, live_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The installation: what `make up` starts, with data of its own; one for all tests of this folder."""
    with live_stack(tmp_path_factory.mktemp("outlive")) as running:
        yield running


@pytest.fixture(autouse=True)
def _good_target(stack: LiveStack) -> None:
    """Let each test begin with a demo target that behaves well."""
    stack.switch()


type Follow = Callable[..., Follower]


@pytest.fixture
def follow(stack: LiveStack) -> Iterator[Follow]:
    """Open readers of runs that are closed with the test: `follow(run_id, role="control")`."""
    with ExitStack() as opened:

        def open_one(run_id: str, *, role: str = "viewer") -> Follower:
            follower = Follower(stack, run_id, role=role)
            opened.callback(follower.close)
            return follower.open()

        yield open_one
