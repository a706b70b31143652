"""Reading runs: what a caller may see, a run's events, and its folded view."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from runs import frames
from runs.access import Actor
from runs.database import decide
from runs.decisions.core import RUN_COLUMNS, Decision, Query
from runs.decisions.effects import list_effects
from runs.errors import NotFound
from runs.fold import fold
from runs.models import Artifact, Operation, Question, Run
from runs.states import STOPPING, OperationState, QuestionState, Status

READ_AFTER = """
select seq, data from (
  select seq, data, sum(octet_length(data)) over (order by seq) - octet_length(data) as before
  from runs_event where stream_id = %(stream)s and seq > %(after)s order by seq limit %(limit)s
) page where before < %(bytes)s order by seq"""

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
        return stored if run.status != Status.NEEDS_RECONCILIATION and not _was_settled(run) else _effects_now(run)
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


def events_after(stream_id: UUID, after: int, *, limit: int = 1000, max_bytes: int = 262_144) -> list[tuple[int, str]]:
    """Return the stored events that follow a seq as (seq, frame text), bounded in rows and bytes (at least one)."""
    with connection.cursor() as cursor:
        cursor.execute(READ_AFTER, {"stream": stream_id, "after": after, "limit": limit, "bytes": max_bytes})
        return [(row[0], row[1]) for row in cursor.fetchall()]


def fold_events(events: Iterable[tuple[int, str]], view: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """Fold stored events into a view."""
    for seq, text in events:
        view = fold(view, frames.decode(seq, text))
    return view


def view_of(run: Run) -> tuple[dict[str, Any], int]:
    """Return the folded view of a run's current attempt and the seq it stands for, from one statement."""
    with connection.cursor() as cursor:
        cursor.execute(
            """select e.seq, e.data from runs_event e join runs_run r on r.stream_id = e.stream_id
               where r.id = %s order by e.seq""",
            [run.pk],
        )
        rows = cursor.fetchall()
    view = fold_events((row[0], row[1]) for row in rows)
    assert view is not None  # run.created is written with the run
    return view, rows[-1][0]
