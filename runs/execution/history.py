"""What the attempt has done so far: its stored steps by path, loaded once per walk, and what a step is known by."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from runs.database import Database
from runs.decisions.dispatch import StepCall
from runs.execution.signals import StepMismatch
from runs.states import StepState
from tools.plain_json import clean_json

LOAD = """
select s.id, s.path, s.kind, s.name, s.digest, s.state, s.result, s.error, q.id as question_id,
  (s.result ->> 'wake_at')::timestamptz as wake_at
from runs_step s left join runs_question q on q.step_id = s.id where s.stream_id = %(stream)s"""
SETTLED = frozenset({StepState.FINISHED, StepState.FAILED})


@dataclass(frozen=True, slots=True)
class StoredStep:
    """A step as the database has it. value: of a finished step; error: {"code", "message", ...} of a failed one."""

    id: UUID
    path: str
    kind: str
    name: str
    digest: str
    state: StepState
    value: Any
    error: dict[str, Any]
    question_id: UUID | None
    wake_at: datetime | None


class History:
    """The stored steps of one attempt, as they were when the walk began."""

    def __init__(self, steps: Mapping[str, StoredStep]) -> None:
        self._steps = steps
        self._unwalked = {path for path, step in steps.items() if step.state in SETTLED}

    @property
    def is_replaying(self) -> bool:
        """True while steps that were settled before this walk are still to come."""
        return bool(self._unwalked)

    def find(self, call: StepCall) -> StoredStep | None:
        """Return what is stored of this step, or None when it must be done (again).

        Raises: StepMismatch when another call was made at this path before.
        """
        step = self._steps.get(call.path)
        if step is None:
            return None
        if (step.kind, step.name, step.digest) != (call.kind, call.name, call.digest):
            asked = f"{call.kind} {call.name}"
            raise StepMismatch(
                call.path,
                f"{step.kind} {step.name}",
                asked if asked != f"{step.kind} {step.name}" else f"{asked} with other arguments",
            )
        self._unwalked.discard(call.path)
        return None if step.state in (StepState.SUPERSEDED, StepState.ABANDONED) else step


async def load_history(database: Database, stream_id: UUID) -> History:
    """Read the attempt's steps."""
    rows = await database.fetch(LOAD, {"stream": stream_id})
    return History(
        {
            row["path"]: StoredStep(
                id=row["id"],
                path=row["path"],
                kind=row["kind"],
                name=row["name"],
                digest=row["digest"],
                state=StepState(row["state"]),
                value=in_order((row["result"] or {}).get("value")),
                error=row["error"] or {},
                question_id=row["question_id"],
                wake_at=row["wake_at"],
            )
            for row in rows
        }
    )


def in_order(value: Any) -> Any:
    """Sort the keys of a JSON value: jsonb forgets their order, and both walks must see the same one.

    An agent that puts a result into a prompt as text would otherwise ask something else on its second walk.
    """
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def step_call(
    path: str,
    kind: str,
    name: str,
    known_by: Mapping[str, Any],
    *,
    stored: Mapping[str, Any] | None = None,
    effect: str | None = None,
) -> StepCall:
    """Describe a step. known_by makes its digest; `stored` is kept on its row instead, where the whole is too large."""
    kept = known_by if stored is None else stored
    return StepCall(path, kind, name, dict(kept), digest_of(kind, name, known_by), effect)


def digest_of(kind: str, name: str, known_by: Mapping[str, Any]) -> str:
    """Return the SHA-256 (hex) of what was asked: the same question gives the same digest, everywhere."""
    text = json.dumps([kind, name, clean_json(known_by)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
