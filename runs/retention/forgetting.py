"""Runs that ended a year ago are deleted whole, unless the ledger, a hold or a younger run needs them."""

import logging
from typing import Any

from runs.conf import limits
from runs.database import decide, fetch
from runs.decisions import forgetting

logger = logging.getLogger(__name__)

BATCH = 100
DUE = f"""
select r.id from runs_run r where {forgetting.MAY_FORGET} order by r.terminal_at limit {BATCH}"""


def forgettable_runs() -> list[dict[str, Any]]:
    """Find the runs, each the root of its tree, that may be deleted."""
    return fetch(DUE, {"days": limits().runs_days})


def forget(due: dict[str, Any]) -> int:
    """Delete a run and all that ran below it; returns how many runs that were."""
    deleted = decide(forgetting.forget(run_id=due["id"], days=limits().runs_days))
    if deleted:
        logger.info("run.deleted", extra={"run_id": due["id"].hex, "runs": deleted})
    return deleted
