"""Holding a run: nothing of it is joined or deleted until it is released, whatever retention says."""

from uuid import UUID

from django.db import transaction

from runs.access import Actor
from runs.auditing import audit
from runs.database import decide
from runs.decisions import keeping
from runs.ids import text_id
from runs.selectors import get_run


def hold_run(*, actor: Actor, run_id: UUID, is_held: bool, note: str) -> bool:
    """Hold a run or release it, on record. False: it was so before, and nothing is recorded.

    Raises: NotFound, NotAllowed for everybody but an admin of the tenant.
    """
    run = get_run(actor, run_id)
    actor.require("run.hold", run)
    with transaction.atomic():
        has_changed = decide(keeping.hold(run_id=run.pk, is_held=is_held))
        if has_changed:
            audit(actor, "run.hold" if is_held else "run.release", text_id("run", run.pk), {"note": note})
    return has_changed
