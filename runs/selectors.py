"""Reading runs: what a caller may see, a run's events, and its folded view."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from runs.access import Actor
from runs.database import decide
from runs.decisions.core import RUN_COLUMNS, Decision, Query
from runs.decisions.effects import list_effects
from runs.errors import NotFound
from runs.fold import View
from runs.fold_parts import first_seq
from runs.frames import decode
from runs.models import Artifact, Conversation, Membership, NextMessage, Operation, Question, Run
from runs.snapshots import SNAPSHOT, found_of, snapshot_params
from runs.states import STOPPING, OperationState, QuestionState, Status

# The stream's floor and head come with the events, from one statement: an empty page says "no more" only at the head.
READ_AFTER = """
with kept as (select coalesce((select floor_seq from runs_checkpoint where stream_id = %(stream)s), 1) as floor)
select 0::bigint as seq, concat_ws(' ', floor,
  greatest(floor - 1, (select max(seq) from runs_event where stream_id = %(stream)s))) as data from kept
union all
(select seq, data from (
  select seq, data, sum(octet_length(data)) over (order by seq) - octet_length(data) as before
  from runs_event where stream_id = %(stream)s and seq > %(after)s order by seq limit %(limit)s
) page where before < %(bytes)s)"""

FILTERS: dict[str, Q] = {
    "running": Q(status__in=[Status.QUEUED, Status.RUNNING, Status.WAITING]),
    "stopping": Q(status__in=list(STOPPING)),
    "verifying": Q(status=Status.NEEDS_RECONCILIATION),
    "failed": Q(status=Status.FAILED),
}


def visible_runs(actor: Actor) -> QuerySet[Run]:
    """Return the runs of the actor's tenant, newest first; none without the right to read."""
    if not actor.may("run.read"):
        return Run.objects.none()
    return Run.objects.filter(tenant=actor.tenant).select_related("created_by", "cancel_by")


def get_run(actor: Actor, run_id: UUID) -> Run:
    """Return a run that the actor may see. Raises: NotFound, also for one of another tenant."""
    run = visible_runs(actor).filter(pk=run_id).first()
    if run is None:
        raise NotFound("run")
    return run


def get_conversation(actor: Actor, conversation_id: UUID) -> Conversation:
    """Return a conversation that the actor may see. Raises: NotFound, also for one of another tenant."""
    found = Conversation.objects.filter(pk=conversation_id, tenant=actor.tenant).select_related("created_by").first()
    if found is None or not actor.may("run.read"):
        raise NotFound("conversation")
    return found


def waiting_messages(conversation_id: UUID) -> QuerySet[NextMessage]:
    """Return the messages of a conversation that wait for their turn, in their order."""
    return NextMessage.objects.filter(conversation=conversation_id, run__isnull=True, withdrawn_at__isnull=True)


def get_question(run: Run, question_id: UUID) -> Question:
    """Return a question of a run. Raises: NotFound."""
    question = Question.objects.filter(run=run, pk=question_id).first()
    if question is None:
        raise NotFound("question")
    return question


def open_questions(run: Run) -> QuerySet[Question]:
    """Return what the run is asking right now, oldest first."""
    return Question.objects.filter(run=run, state=QuestionState.OPEN)


def get_artifact(run: Run, artifact_id: UUID) -> Artifact:
    """Return an artifact of a run. Raises: NotFound."""
    artifact = Artifact.objects.filter(run=run, pk=artifact_id).first()
    if artifact is None:
        raise NotFound("artifact")
    return artifact


def unsettled_operations(actor: Actor) -> QuerySet[Operation]:
    """Return the tenant's operations whose outcome is unknown or contradicted, oldest first."""
    return visible_operations(actor).filter(Q(state=OperationState.UNKNOWN) | Q(contradicted_at__isnull=False))


def visible_operations(actor: Actor) -> QuerySet[Operation]:
    """Return the ledger of the actor's tenant."""
    if not actor.may("run.read"):
        return Operation.objects.none()
    return Operation.objects.filter(run__tenant=actor.tenant).select_related("run", "step").order_by("created_at")


def run_effects(run: Run) -> list[dict[str, Any]]:
    """Return the cancel receipt: the stored one of an ended run, else what is known right now."""
    if run.cancel_effects is not None:
        stored: list[dict[str, Any]] = run.cancel_effects
        is_final = all(effect["outcome"] != "unknown" for effect in stored) and not _was_settled(run)
        return stored if run.status != Status.NEEDS_RECONCILIATION and is_final else _effects_now(run)
    return _effects_now(run)


def _was_settled(run: Run) -> bool:
    return Operation.objects.filter(run=run, settled_at__isnull=False).exists()


def _effects_now(run: Run) -> list[dict[str, Any]]:
    return decide(_read_effects(run.pk))


def _read_effects(run_id: UUID) -> Decision[list[dict[str, Any]]]:
    rows = yield Query(
        f"select {RUN_COLUMNS}, clock_timestamp() as now from runs_run where id = %(run)s", {"run": run_id}
    )
    return (yield from list_effects(rows[0]))


@dataclass(frozen=True, slots=True)
class EventPage:
    """Frames of one attempt's stream, and the oldest and newest seq that it has; head = floor - 1 when all are gone."""

    frames: list[dict[str, Any]]
    floor: int
    head: int

    def gap_after(self, after: int) -> str | None:
        """Say why what follows a seq cannot be given one by one: trimmed | ahead. None: it was."""
        if after > self.head:
            return "ahead"
        next_seq = first_seq(self.frames[0]) if self.frames else self.head + 1
        return "trimmed" if after < self.floor - 1 or next_seq != after + 1 else None


def events_after(stream_id: UUID, after: int, *, limit: int = 1000, max_bytes: int = 262_144) -> EventPage:
    """Return the stored events that follow a seq, bounded in rows and bytes (at least one)."""
    with connection.cursor() as cursor:
        cursor.execute(READ_AFTER, {"stream": stream_id, "after": after, "limit": limit, "bytes": max_bytes})
        (_, ends), *rows = sorted(cursor.fetchall())
    floor, head = ends.split(" ")
    return EventPage([decode(seq, text) for seq, text in rows], int(floor), int(head))


def view_of(run: Run) -> tuple[View, int]:
    """Return the folded view of a run's current attempt and the seq it stands for, from one statement."""
    with connection.cursor() as cursor:
        cursor.execute(SNAPSHOT, snapshot_params(run.pk))
        found = found_of(cursor.fetchall())
    assert found is not None  # nobody has a Run whose row is deleted
    view = found.fold()
    return view, view["seq"]


def people_of(actor: Actor) -> dict[str, str]:
    """Give the names of the actor's workspace by their keys as text: who a page may have to name later."""
    members = Membership.objects.filter(tenant=actor.tenant).select_related("user").order_by("pk")[:500]
    return {str(m.user.pk): m.user.get_username() for m in members}
