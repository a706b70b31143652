"""Which overdue rows have to wait for the others: those that could not be acted on when they were looked at last.

A row that is locked, or fails each time, stays overdue, and would be the first of each sweep for ever. So it goes
behind all that are looked at for the first time; among its like it comes when its turn is.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from django.db import InterfaceError, OperationalError

from runs.decisions.core import Row
from runs.errors import Busy

logger = logging.getLogger(__name__)
MOST_ROWS = 1000  # of each kind; the one that has waited longest is forgotten, and is in front again


# Of rows `o` with an id and the time at which each was due.
IN_TURN = "order by coalesce(array_position(%(behind)s::text[], o.id::text), 0), o.due_at"


class Behind:
    """What one supervisor remembers between its sweeps. Losing it costs one look at each row."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, None]] = {}

    def put(self, kind: str, row_id: Any) -> None:
        """Let a row come after all others."""
        rows = self._rows.setdefault(kind, {})
        rows.pop(str(row_id), None)
        rows[str(row_id)] = None
        if len(rows) > MOST_ROWS:
            del rows[next(iter(rows))]

    def drop(self, kind: str, row_id: Any) -> None:
        """Forget a row: it was acted on."""
        self._rows.get(kind, {}).pop(str(row_id), None)

    def of(self, kind: str) -> list[str]:
        """Return the rows of a kind in the order in which their turn comes."""
        return list(self._rows.get(kind, {}))


def act_on_each(kind: str, rows: Iterable[Row], act: Callable[[Row], bool], behind: Behind) -> int:
    """Act on one row after another; returns how many something was done to. One that is busy or fails goes behind.

    Raises: django.db.OperationalError, InterfaceError when the database is away.
    """
    done = 0
    for row in rows:
        behind.put(kind, row["id"])
        try:
            done += act(row)
        except Busy:
            continue
        except (OperationalError, InterfaceError):
            raise
        except Exception:  # the edge of one row
            logger.exception("supervisor.row_failed", extra={"sweep": kind, "row": str(row["id"])})
            continue
        behind.drop(kind, row["id"])
    return done
