"""The proofs of shells as lines of `make chaos`."""

import time

from tests.chaos.shells.proof import FULL, Proof
from tests.chaos.site import Site


def print_proofs(site: Site, wanted: list[Proof]) -> int:
    """Run them and print what was seen. Returns how many are wrong."""
    wrong = 0
    for proof in wanted:
        began = time.monotonic()
        try:
            found = proof.show(site, FULL)
            problems, facts = found.wrong, " ".join(f"{what}={value}" for what, value in found.facts.items())
        except (AssertionError, TimeoutError) as error:
            problems, facts = [f"STUCK {error!r}"[:300]], ""
        wrong += bool(problems)
        said = f"WRONG {problems}" if problems else "ok"
        print(f"{proof!s:52} {time.monotonic() - began:6.1f} s  {said} {facts}", flush=True)
    return wrong
