"""The installation that the cases are played against."""

from collections.abc import Iterator

import pytest

from tests.stack import LiveStack, live_stack


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The installation: what `make up` starts, with data of its own; one for all tests of this folder."""
    with live_stack(tmp_path_factory.mktemp("outlive")) as running:
        yield running
