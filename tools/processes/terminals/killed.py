"""What becomes of a terminal whose ward was killed: the host ends what is left of it, and proves that nothing is.

A killed ward's orphans become children of the host, a subreaper too, before the host can reap the ward. Whatever lives
of its tree then has a topmost living ancestor among the host's children, and only the host takes a child off their
list, by reaping it. So a list without a stranger, read after the ward was reaped, proves an empty tree. stdlib only.
"""

import contextlib
import os
from collections.abc import Iterable
from typing import Any

from .. import kernel
from ..proofs import load_proof, store_proof
from ..resident import kill_strays

PROOF: dict[str, Any] = {
    "gone": True,
    "exit": None,
    "by_itself": False,
    "cause": "ward",
    "reaped": 0,
    "signalled": [],
    "ms": 0.0,
}


class Wards:
    """The host's wards: `living` by their pid, `killed` those whose tree is not known to be gone yet.

    Each with its request (ward.py) and the path where it listens. A ward that has proven its end exits with 0.
    """

    def __init__(self) -> None:
        self.living: dict[int, tuple[dict[str, Any], str]] = {}
        self.killed: list[tuple[dict[str, Any], str]] = []

    @property
    def is_empty(self) -> bool:
        """Nothing lives here, and nobody waits for a proof."""
        return not self.living and not self.killed

    def has(self, path: str) -> bool:
        """Say whether a ward of ours listens there, or something of a killed one may be left."""
        return any(path == where for _, where in (*self.living.values(), *self.killed))

    def settle(self) -> bool:
        """Reap what has ended, kill what has no ward any more, prove what can be. True: something may be left."""
        self._reap()
        if self.killed:
            self._prove(kernel.own_children())
        return kill_strays(self.living)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            ward = self.living.pop(pid, None)
            if ward is not None and status != 0:
                self.killed.append(ward)

    def _prove(self, children: Iterable[int] | None) -> None:
        """Store the proof for each killed ward, if no child of ours is a stranger; which was whose cannot be told."""
        if children is not None and not self.living.keys() >= set(children):
            return
        for request, path in self.killed:
            folder = request.get("proof_dir")
            if children is not None and folder and load_proof(folder, request["key"]) is None:
                store_proof(folder, request["key"], PROOF)
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.killed.clear()
