"""What the attempt has done so far: its stored steps by path, loaded once per walk, and what a step is known by."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from runs.database import Database
from runs.decisions.core import Row
from runs.decisions.dispatch import StepCall
from runs.decisions.lineage import base_of
from runs.execution.earlier import EarlierSteps, StoredStep
from runs.execution.signals import StepMismatch
from runs.states import StepState
from tools.plain_json import clean_json

LOAD = """
select s.id, s.path, s.kind, s.name, s.digest, s.state, s.result, s.error, q.id as question_id,
  (s.result ->> 'wake_at')::timestamptz as wake_at,
  s.state = 'open' and c.told_parent = 'doubt' as is_in_doubt
from runs_step s left join runs_question q on q.step_id = s.id left join runs_run c on c.parent_step_id = s.id
where s.stream_id = %(stream)s"""
# Of each path the newest attempt's step; an attempt that reused nothing hides all before it.
LOAD_EARLIER = """
with mine as (
  select number, keys from runs_attempt where stream_id = %(stream)s and reuse = 'finished'
), lineage as (
  select a.stream_id, a.number, mine.keys from runs_attempt a, mine
  where a.run_id = %(run)s and a.number < mine.number and a.number >= (
    select max(number) from runs_attempt b
    where b.run_id = %(run)s and b.number < mine.number and (b.number = 1 or b.reuse = 'nothing'))
)
select distinct on (s.path) s.id, s.path, s.kind, s.name, s.digest, s.state, s.result, s.error, q.id as question_id,
  null::timestamptz as wake_at, false as is_in_doubt, o.key, l.keys
from runs_step s join lineage l on l.stream_id = s.stream_id left join runs_question q on q.step_id = s.id
left join runs_operation o on o.step_id = s.id
order by s.path, l.number desc"""
KEYS = "select keys from runs_attempt where stream_id = %(stream)s"
SETTLED = frozenset({StepState.FINISHED, StepState.FAILED})

BACK_OFF = "back_off"  # the name of the pauses between the tries of a call


class History:
    """The stored steps of one attempt as they were when the walk began, and what it may take over of earlier ones.

    keys: operation keys that the attempt uses instead of a call's own.
    """

    def __init__(
        self,
        steps: Mapping[str, StoredStep],
        earlier: EarlierSteps | None = None,
        keys: Mapping[str, str] | None = None,
    ) -> None:
        self._steps = steps
        # A call that has succeeded does not look at the pauses before it again.
        self._unwalked = {path for path, s in steps.items() if s.state in SETTLED and s.name != BACK_OFF}
        self._earlier = earlier
        self._keys = keys or {}

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

    def is_finished(self, path: str) -> bool:
        """Say whether this attempt has a finished step at the path, whatever it is."""
        step = self._steps.get(path)
        return step is not None and step.state is StepState.FINISHED

    def find_earlier(self, call: StepCall) -> StoredStep | None:
        """Return the finished step of an earlier attempt that this call may take over."""
        if self._earlier is None or call.path in self._steps:
            return None
        return self._earlier.find(call.path, call.kind, call.name, call.digest)

    def key_for(self, key: str) -> str:
        """Return the operation key that a call uses in this attempt."""
        return self._keys.get(key, key)


async def load_history(database: Database, run_id: UUID, stream_id: UUID, *, attempt: int = 1) -> History:
    """Read the attempt's steps, and for a retry those of the attempts before that it may take over."""
    rows = await database.fetch(LOAD, {"stream": stream_id})
    steps = {row["path"]: _stored(row) for row in rows}
    if attempt == 1:
        return History(steps)
    found = await database.fetch(KEYS, {"stream": stream_id})
    earlier = await database.fetch(LOAD_EARLIER, {"run": run_id, "stream": stream_id})
    taken = EarlierSteps({row["path"]: _stored(row) for row in earlier}, {r["path"] for r in earlier if _is_redone(r)})
    for path, step in steps.items():
        taken.find(path, step.kind, step.name, step.digest)  # what this attempt did anew cuts off what follows it
    return History(steps, taken, found[0]["keys"] if found else None)


def _is_redone(row: Row) -> bool:
    """Say whether a person asked for the step's operation to be done again."""
    if row["key"] is None:
        return False
    base = base_of(row["key"])
    return bool((row["keys"] or {}).get(base, base) != row["key"])


def _stored(row: Row) -> StoredStep:
    return StoredStep(
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
        is_in_doubt=bool(row["is_in_doubt"]),
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
