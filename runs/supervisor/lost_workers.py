"""What follows when a worker was seen to exit: its runs are free at once, its calls have lost their holder."""

import logging
from typing import Any

from runs.database import decide
from runs.decisions import claims
from runs.models import Run

logger = logging.getLogger(__name__)


def worker_gone(worker: str, proof: dict[str, Any], *, is_death: bool = True) -> int:
    """Free every run of a dead worker and note on its operations that nothing more comes from it.

    Called by the process that waited for it (the parent of the workers on that host), so it is proof and no guess.
    Args: is_death: it counts against the steps that were open; not when we have ended the worker ourselves.
    Returns how many runs were freed. May be called again without harm.
    """
    decide(claims.mark_holder_gone(worker=worker, proof=proof))
    freed = 0
    for run_id in list(Run.objects.filter(lease_owner=worker).values_list("pk", flat=True)):
        freed += decide(claims.take_from_dead(run_id=run_id, worker=worker, is_death=is_death))
    logger.warning("worker.gone", extra={"worker": worker, "freed": freed, **proof})
    return freed
