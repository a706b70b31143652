"""The run object of the API: one run, or a page of them with as few queries as their states need."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F

from runs.creating import SHELL
from runs.frames import write_time
from runs.ids import text_id
from runs.models import Operation, Question, Run, Shell
from runs.selectors import run_effects
from runs.states import ENDED, Status

API_ROOT = "/api/v1"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the run object says of other tables. Empty for a run that has just been made."""

    questions: dict[UUID, list[str]] = field(default_factory=dict)
    unsettled: dict[UUID, list[str]] = field(default_factory=dict)
    effects: dict[UUID, list[dict[str, Any]]] = field(default_factory=dict)
    children: dict[UUID, list[dict[str, Any]]] = field(default_factory=dict)
    shells: dict[UUID, str] = field(default_factory=dict)


def run_body(run: Run) -> dict[str, Any]:
    """Write one run as the API shows it."""
    return write_run(run, read_surroundings([run]))


def run_bodies(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Write a page of runs; the number of queries does not grow with it (but for runs that are stopping)."""
    surroundings = read_surroundings(runs)
    return [write_run(run, surroundings) for run in runs]


def etag_of(run: Run) -> str:
    """Name this state of the run object. Appended events move the head without a new version, hence both."""
    return f'"{run.version}-{run.last_seq}"'


def read_surroundings(runs: Sequence[Run]) -> Surroundings:
    """Read open questions, unsettled operations, effects and children, only for runs that can have them."""
    around = Surroundings(defaultdict(list), defaultdict(list), {}, defaultdict(list))
    asking = [run.id for run in runs if Status(run.status) not in ENDED and run.started_at is not None]
    if asking:
        questions = Question.objects.filter(run_id__in=asking, state="open").order_by("asked_at")
        for run_id, question_id in questions.values_list("run_id", "id"):
            around.questions[run_id].append(text_id("q", question_id))
    unsettled = [run.id for run in runs if run.unknown_ops]
    if unsettled:
        operations = Operation.objects.filter(run_id__in=unsettled, state="unknown").order_by("created_at")
        for run_id, operation_id in operations.values_list("run_id", "id"):
            around.unsettled[run_id].append(text_id("op", operation_id))
    started = [run.id for run in runs if run.started_at is not None]
    if started:
        begun = Run.objects.filter(parent_id__in=started, parent_step__attempt=F("parent__stream_id")).order_by("id")
        for parent_id, child_id, agent, status in begun.values_list("parent_id", "id", "agent", "status"):
            around.children[parent_id].append({"id": text_id("run", child_id), "agent": agent, "status": status})
    with_shell = [run.id for run in runs if run.agent == SHELL]
    if with_shell:
        for run_id, shell_id in Shell.objects.filter(run_id__in=with_shell).values_list("run_id", "id"):
            around.shells[run_id] = text_id("shell", shell_id)
    around.effects.update(_read_effects([run for run in runs if run.cancel_id is not None]))
    return around


def _read_effects(runs: Sequence[Run]) -> dict[UUID, list[dict[str, Any]]]:
    """Take the stored receipt of a run that is over; read the ledger only where it can say more by now."""
    if not runs:
        return {}
    settled = set(
        Operation.objects.filter(run__in=runs, settled_at__isnull=False).values_list("run_id", flat=True).distinct()
    )
    effects: dict[UUID, list[dict[str, Any]]] = {}
    for run in runs:
        stored: list[dict[str, Any]] | None = run.cancel_effects
        was_in_doubt = any(effect["outcome"] == "unknown" for effect in stored or [])  # it can have been settled since
        is_final = run.status == Status.CANCELLED and run.id not in settled and not was_in_doubt
        effects[run.id] = stored if is_final and stored is not None else run_effects(run)
    return effects


def write_run(run: Run, around: Surroundings) -> dict[str, Any]:
    """Write one run from what was read before."""
    run_id = text_id("run", run.id)
    path = f"{API_ROOT}/runs/{run_id}"
    return {
        "id": run_id,
        "object": "run",
        "status": run.status,
        "title": run.title,
        "agent": run.agent,
        "input": run.input,
        "metadata": run.metadata,
        "created_at": _time(run.created_at),
        "started_at": _time(run.started_at),
        "ended_at": _time(run.terminal_at),
        "deadline_at": _time(run.deadline_at),
        "parent_id": None if run.parent_id is None else text_id("run", run.parent_id),
        "children": around.children.get(run.id, []),
        "budget": None if run.budget_tokens is None else {"tokens": run.budget_tokens},
        "conversation_id": None if run.conversation_id is None else text_id("conv", run.conversation_id),
        "turn": run.turn,
        "attempt": run.attempt,
        "stream_id": text_id("st", run.stream_id),
        "head_seq": run.last_seq,
        "version": run.version,
        "on_disconnect": "continue" if run.grace_seconds is None else {"grace_s": run.grace_seconds},
        "grace_expires_at": _time(run.grace_expires_at),
        "waiting": _waiting(run, around),
        "cancel": None if run.cancel_id is None else write_cancel(run, around.effects.get(run.id, [])),
        "unsettled_operations": around.unsettled.get(run.id, []),
        "shell": around.shells.get(run.id),
        "result": run.result,
        "error": None if run.error_code is None else {"code": run.error_code, "message": run.error_message or ""},
        "usage": {"input_tokens": run.input_tokens, "output_tokens": run.output_tokens},
        "links": {
            "self": path,
            "events": f"{path}/events",
            "cancel": f"{path}/cancel",
            "artifacts": f"{path}/artifacts",
            "attempts": f"{path}/attempts",
            "html": f"/runs/{run_id}/",
        },
    }


def write_cancel(run: Run, effects: list[dict[str, Any]], *, too_late: bool = False) -> dict[str, Any]:
    """Write the recorded request to stop; all empty when the run had ended before anybody asked."""
    return {
        "id": None if run.cancel_id is None else text_id("cancel", run.cancel_id),
        "reason": run.cancel_reason,
        "requested_at": _time(run.cancel_requested_at),
        "by": None if run.cancel_by is None else run.cancel_by.get_username(),
        "note": run.cancel_note,
        "seen_at": _time(run.cancel_seen_at),
        "seen_by": run.cancel_seen_by,
        "seen_fence": run.cancel_seen_fence,
        "stop_deadline_at": _time(run.stop_deadline_at),
        "too_late": too_late,
        "effects": effects,
    }


def _waiting(run: Run, around: Surroundings) -> dict[str, Any] | None:
    questions = around.questions.get(run.id, [])
    if run.waiting_for is None and not questions:
        return None
    # A question that is asked beside running branches leaves the run `running`; it can be answered all the same.
    return {"for": run.waiting_for or "input", "wake_at": _time(run.wake_at), "question_ids": questions}


def _time(at: datetime | None) -> str | None:
    return None if at is None else write_time(at)
