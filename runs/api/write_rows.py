"""Rows of the smaller tables as the API shows them."""

from datetime import datetime
from typing import Any

from runs.frames import write_time
from runs.ids import text_id
from runs.models import Artifact, Compensation, Document, Operation, Question, Step

API_ROOT = "/api/v1"


def write_question(question: Question) -> dict[str, Any]:
    """Write a question to a person."""
    return {
        "id": text_id("q", question.id),
        "object": "question",
        "run_id": text_id("run", question.run_id),
        "prompt": question.prompt,
        "schema": question.schema,
        "state": question.state,
        "value": _unboxed(question.value),
        "asked_at": _time(question.asked_at),
        "expires_at": _time(question.expires_at),
        "closed_at": _time(question.closed_at),
    }


def write_step(step: Step) -> dict[str, Any]:
    """Write one step."""
    return {
        "id": text_id("step", step.id),
        "object": "step",
        "run_id": text_id("run", step.run_id),
        "stream_id": text_id("st", step.attempt_id),
        "path": step.path,
        "kind": step.kind,
        "name": step.name,
        "effect": step.effect,
        "state": step.state,
        "arguments": step.arguments,
        "result": _unboxed(step.result),
        "error": step.error,
        "usage": step.usage,
        "started_at": _time(step.started_at),
        "finished_at": _time(step.finished_at),
    }


def write_operation(operation: Operation) -> dict[str, Any]:
    """Write one effect outside our database with what is known of it."""
    by = operation.settled_by
    return {
        "id": text_id("op", operation.id),
        "object": "operation",
        "run_id": text_id("run", operation.run_id),
        "step_id": text_id("step", operation.step_id),
        "key": operation.key,
        "tool": operation.tool,
        "effect": operation.effect,
        "state": operation.state,
        "version": operation.version,
        "can_look_up": operation.can_look_up,
        "arguments": operation.arguments,
        "receipt": operation.receipt,
        "created_at": _time(operation.created_at),
        "dispatched_at": _time(operation.dispatched_at),
        "horizon_at": _time(operation.horizon_at),
        "settled_at": _time(operation.settled_at),
        "settled_by": None if by is None else by.get_username(),
        "settle_note": operation.settle_note,
        "contradicted_at": _time(operation.contradicted_at),
    }


def write_compensation(compensation: Compensation) -> dict[str, Any]:
    """Write one try to undo an effect."""
    by = compensation.settled_by
    return {
        "id": text_id("comp", compensation.id),
        "object": "compensation",
        "operation_id": text_id("op", compensation.operation_id),
        "key": compensation.key,
        "state": compensation.state,
        "version": compensation.version,
        "note": compensation.note,
        "requested_at": _time(compensation.requested_at),
        "requested_by": compensation.requested_by.get_username(),
        "dispatched_at": _time(compensation.dispatched_at),
        "finished_at": _time(compensation.finished_at),
        "receipt": compensation.receipt,
        "settled_by": None if by is None else by.get_username(),
        "settle_note": compensation.settle_note,
    }


def write_artifact(artifact: Artifact) -> dict[str, Any]:
    """Write what is known of a file that a run made; its content has an address of its own."""
    run_id, artifact_id = text_id("run", artifact.run_id), text_id("art", artifact.id)
    return {
        "id": artifact_id,
        "object": "artifact",
        "run_id": run_id,
        "name": artifact.name,
        "content_type": artifact.content_type,
        "bytes": artifact.size_bytes,
        "sha256": artifact.sha256,
        "created_at": _time(artifact.created_at),
        "links": {"content": f"{API_ROOT}/runs/{run_id}/artifacts/{artifact_id}"},
    }


def write_document(document: Document) -> dict[str, Any]:
    """Write what is known of an uploaded file."""
    document_id = text_id("doc", document.id)
    return {
        "id": document_id,
        "object": "document",
        "name": document.name,
        "content_type": document.content_type,
        "bytes": document.size_bytes,
        "sha256": document.sha256,
        "error": document.error,
        "created_at": _time(document.created_at),
        "links": {"self": f"{API_ROOT}/documents/{document_id}"},
    }


def _unboxed(stored: Any) -> Any:
    # Values are stored as {"value": x}, so that a null that was given differs from nothing given yet.
    return stored["value"] if isinstance(stored, dict) and set(stored) == {"value"} else stored


def _time(at: datetime | None) -> str | None:
    return None if at is None else write_time(at)
