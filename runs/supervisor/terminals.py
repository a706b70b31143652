"""Terminals of this machine whose run has ended without them: nobody will adopt these any more, so they are ended here.

That happens where a stop passed its deadline with no worker to carry it out. The proof becomes evidence of the
operation, so that what was unknown is settled. Who has no folder of terminals has nothing to do.
"""

import asyncio
import logging
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection

from runs.database import decide
from runs.decisions.operations import record_evidence
from runs.ids import BadId, parse_id, text_id
from runs.models import Shell
from runs.shell_places import grace_of, is_remote
from runs.shell_tool import write_receipt
from tools.processes.terminals.owned import NoTerminal, Terminals, noted_keys
from tools.scope import CancelReason, Scope, ScopeCancelled

logger = logging.getLogger(__name__)

LEFT = """
select h.id as shell, r.id as run, r.fence, o.id as operation, o.fence as operation_fence
from runs_shell h join runs_run r on r.id = h.run_id
left join runs_operation o on o.run_id = r.id and o.state = 'unknown'
where h.id = any(%s) and r.terminal_at is not null"""


def end_left_terminals() -> int:
    """End each terminal that is left of an ended run; returns how many. Raises: as every sweep."""
    shells = []
    for key in noted_keys(settings.TERMINALS):
        try:
            shells.append(parse_id("shell", key))
        except BadId:
            continue
    if not shells:
        return 0
    with connection.cursor() as cursor:
        cursor.execute(LEFT, [shells])
        names = [column.name for column in cursor.description]
        left = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return sum(_end(row, settings.WORKSPACES / ".proofs") for row in left)


def _end(row: dict[str, Any], proofs: Path) -> bool:
    key, run_id = text_id("shell", row["shell"]), text_id("run", row["run"])
    terminals, scope = Terminals(folder=settings.TERMINALS, proof_dir=proofs), Scope()
    if row["operation"] is None and not terminals.has_ward(key):  # its end is stored, and only what noted it is left
        terminals.forget(key)
        return False
    scope.cancel(CancelReason.OPERATOR)  # whoever asked: it ends at once
    shell = Shell.objects.select_related("target").get(pk=row["shell"])
    # Only the program on this side can end what runs on the other one, and it needs its time.
    grace = grace_of(shell) if is_remote(shell) else 0.0
    hold = terminals.hold(key, run_id=run_id, fence=row["fence"], scope=scope, grace_seconds=grace)
    try:
        proof = asyncio.run(hold)
    except ScopeCancelled:
        return False  # another supervisor has it
    except NoTerminal:
        terminals.forget(key)
        return False
    receipt = write_receipt(shell, proof, terminals.folder)
    if row["operation"] is not None and receipt is not None:
        decide(
            record_evidence(
                operation_id=row["operation"], fence=row["operation_fence"], kind="receipt", happened=True,
                detail=receipt,
            )
        )  # fmt: skip
    terminals.release(run_id)
    logger.warning("terminal.ended", extra={"run_id": run_id, "shell": key})
    return True
