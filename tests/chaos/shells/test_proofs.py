"""The promises of shells that need the whole installation, shown quickly; all, and at length: `make chaos`."""

import pytest

from tests.chaos.shells.proof import QUICK
from tests.chaos.shells.proofs import proofs
from tests.chaos.site import Site

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    "words",
    [
        "flood / stalled",  # B44
        "flood / nobody",
        "grace / kill web and supervisor",
        "grace / kill supervisor at the last moment",
        "packets vanish",  # B49
        "many",
    ],
)
def test_it_is_as_promised(site: Site, words: str) -> None:
    (proof,) = [one for one in proofs() if str(one) == f"shells / {words}"]
    found = proof.show(site, QUICK)
    assert found.wrong == [], found.facts
