"""One installation that may be broken, for all tests of this folder: nobody else uses it."""

from collections.abc import Iterator

import pytest

from tests.chaos.site import Site, open_site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two workers, seams that can be armed, PostgreSQL and Valkey of its own."""
    with open_site(tmp_path_factory.mktemp("chaos")) as running:
        yield running
