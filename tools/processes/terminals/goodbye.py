"""The last words of a terminal's ward: its proof, to whoever is there, or as a file. stdlib only."""

import select
import time
from typing import TYPE_CHECKING

from ..proofs import store_proof
from . import frames

if TYPE_CHECKING:
    from .ward import TerminalWard

GOODBYE_SECONDS = 2.0
STORE_SECONDS = 5.0


def say_goodbye(ward: "TerminalWard") -> None:
    """Tell the proof and wait a moment for people to read; without an owner who stores it, it becomes a file."""
    proof = ward.tree.proof()
    ward.tell(frames.NEWS, proof)
    now = time.monotonic()
    while time.monotonic() < now + (GOODBYE_SECONDS if ward.is_stored or ward.owner is None else STORE_SECONDS):
        owner = None if ward.is_stored else ward.owner
        if not any(one.has_more(ward.ring) or one is owner for one in ward.people.values()):
            break
        _turn_to_people(ward, 0.1)
    if not ward.is_stored:
        store_proof(ward.request.get("proof_dir"), ward.request["key"], proof)


def _turn_to_people(ward: "TerminalWard", seconds: float) -> None:
    poll = select.poll()
    for fd, one in ward.people.items():
        poll.register(fd, select.POLLIN | (select.POLLOUT if one.has_more(ward.ring) else 0))
    for fd, event in poll.poll(seconds * 1e3):
        ward.serve(ward.people[fd], event)
    ward.flush()
