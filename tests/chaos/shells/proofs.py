"""The rows: each promise of shells that needs real processes to be shown."""

from collections.abc import Iterator
from functools import partial

from tests.chaos.shells.floods import flood
from tests.chaos.shells.graces import SUPERVISOR, WEB, grace, silence
from tests.chaos.shells.many import many
from tests.chaos.shells.proof import Proof
from tests.chaos.shells.screens import screens

AT_THE_LAST_MOMENT = 0.3  # seconds before the end of the grace

PROOFS = [
    *(Proof(f"flood / {watched}", partial(flood, watched=watched)) for watched in ("reading", "stalled", "nobody")),
    Proof("grace / kill web", partial(grace, killed=(WEB,), leaves=False)),
    Proof("grace / kill supervisor", partial(grace, killed=(SUPERVISOR,), leaves=True)),
    Proof("grace / kill web and supervisor", partial(grace, killed=(WEB, SUPERVISOR), leaves=False)),
    *(
        Proof(f"grace / kill {name} at the last moment",
              partial(grace, killed=killed, leaves=True, seconds_before=AT_THE_LAST_MOMENT))
        for name, killed in (("supervisor", (SUPERVISOR,)), ("both", (WEB, SUPERVISOR)))
    ),
    Proof("packets vanish", silence),
    Proof("screens / kill worker and web", screens),
    Proof("many", many),
]  # fmt: skip


def proofs(words: str = "") -> Iterator[Proof]:
    """Yield those that a text names, as for cells of the matrix ("shells", "grace / web", "")."""
    wanted = [word.strip() for word in words.split("/") if word.strip()]
    yield from (proof for proof in PROOFS if all(word in str(proof) for word in wanted))
