"""Random sequences of every decision against PostgreSQL: after each step the invariants hold, and each walk ends.

The seed is printed; OUTLIVE_SEED repeats a walk, OUTLIVE_WALKS makes more of them.
"""

import os
import random

from runs.models import Run
from runs.states import SETTLED, Status, is_allowed
from tests.builders import a_run
from tests.races.invariants import check
from tests.races.walker import Walker

WALKS = int(os.environ.get("OUTLIVE_WALKS", "40"))
STEPS = 25


def test_no_sequence_of_decisions_breaks_an_invariant(owner):
    seed = int(os.environ.get("OUTLIVE_SEED") or random.SystemRandom().randrange(10**9))
    print(f"OUTLIVE_SEED={seed}")
    for number in range(WALKS):
        run = a_run(owner, on_disconnect="grace", grace_seconds=5.0)
        walker = Walker(run, owner.user.pk, random.Random(f"{seed}/{number}"))
        try:
            for _ in range(STEPS):
                walker.step()
                before, walker.run = walker.run, check(run.pk)
                _check_step(before, walker.run)
            walker.bring_to_an_end()
            assert check(run.pk).status in SETTLED
        except Exception as error:
            error.add_note(f"OUTLIVE_SEED={seed}, walk {number}:\n" + "\n".join(walker.history))
            raise


def _check_step(before: Run, after: Run) -> None:
    old, new = Status(before.status), Status(after.status)
    assert old == new or is_allowed(old, new), f"{old} -> {new}"
    assert after.fence >= before.fence, "the fence went back"
    if after.attempt != before.attempt:
        assert (old in SETTLED, new, after.attempt) == (True, Status.QUEUED, before.attempt + 1)
        assert after.fence > before.fence, "a new attempt began with the old fence"
        return
    assert after.last_seq >= before.last_seq
    assert after.wakes >= before.wakes
    if after.terminal_at != before.terminal_at or (before.lease_owner and not after.lease_owner):
        assert after.fence > before.fence, "a claim was ended or handed over with its fence"
    if before.terminal_at is not None:
        assert (after.terminal_at, after.fence) == (before.terminal_at, before.fence), "something went on after the end"
    if before.cancel_id is not None:
        assert (after.cancel_id, after.cancel_reason) == (before.cancel_id, before.cancel_reason)
