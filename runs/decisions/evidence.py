"""Evidence: what was learnt about one dispatch of an operation. Anybody may add it; it decides nothing itself."""

from typing import Any
from uuid import UUID

from runs.decisions.core import Decision, Query, jsonb
from runs.ids import new_id


def insert_evidence(
    operation_id: UUID, fence: int, kind: str, happened: bool | None, detail: dict[str, Any], by: int | None = None
) -> Decision[UUID]:
    """Add a row that says what was learnt about one dispatch. It needs no fence and decides nothing (RULES H7)."""
    evidence_id = new_id()
    yield Query(
        """insert into runs_evidence (id, operation_id, fence, kind, happened, detail, by_id)
           values (%(id)s, %(operation)s, %(fence)s, %(kind)s, %(happened)s, %(detail)s, %(by)s)""",
        {"id": evidence_id, "operation": operation_id, "fence": fence, "kind": kind, "happened": happened,
         "detail": jsonb(detail), "by": by},
    )  # fmt: skip
    return evidence_id
