"""What each command does. Each returns the exit code, and raises CliProblem for everything that went wrong."""

import re
import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from runs.cli.api import Answer, ApiClient
from runs.cli.following import end_of, follow_to_the_end
from runs.cli.inputs import read_answer, read_input
from runs.cli.output import child_lines, open_output, run_line
from runs.cli.plain_text import safe, safe_line
from runs.cli.problems import Usage
from runs.cli.settings import Target
from runs.cli.stream import follow_command
from runs.cli.telling import describe_effect
from runs.cli.uploading import document_line, upload

_ID = re.compile(r"[a-z]+_[0-9a-f]{32}")
PAGE = 100


def start(
    *,
    target: Target,
    as_json: bool,
    agent: str,
    pairs: list[str],
    input_json: str | None,
    files: list[str],
    is_following: bool,
    title: str | None,
    deadline_seconds: float | None,
    budget_tokens: int | None,
    on_disconnect: str,
    conversation: str | None,
    on_busy: str,
    key: str | None,
) -> int:
    """Start a run. The create is sent once; if its answer is lost, the same key makes a second try safe."""
    body: dict[str, Any] = {
        "agent": agent,
        "input": read_input(pairs, input_json),
        "on_disconnect": _read_policy(on_disconnect),
    }
    if title is not None:
        body["title"] = title
    if deadline_seconds is not None:
        body["deadline_s"] = deadline_seconds
    if budget_tokens is not None:
        body["budget"] = {"tokens": budget_tokens}
    if conversation is not None:
        body |= {"conversation_id": _check_id(conversation, "conv"), "on_busy": _check_on_busy(on_busy)}
    key = key or f"cli-{uuid.uuid4().hex}"
    with closing(ApiClient(target)) as client:
        if files:
            documents = upload(client, files)
            body["input"].setdefault("documents", [document["id"] for document in documents])
        answer = client.call(
            "POST", "/runs", body=body, headers={"Idempotency-Key": key},
            lost=f"The run may have been started. Send the same command again with --key {key}: "
            "that cannot start it twice.",
        )  # fmt: skip
        run = answer.body
        output = open_output(as_json=as_json)
        if run["object"] == "next_message":
            what = "the outcome of" if run["waits_until"] == "verdict" else "the end of"
            output.row(run, f"{run['id']}  waits for {what} {run['waits_for']}")
            return 0
        output.row(run, f"{run['id']}  {run['links']['html'] and target.base_url + run['links']['html']}")
        if answer.headers.get("idempotent-replayed"):
            output.note("This key had started that run before; nothing new was started.")
        if not is_following:
            return 0
        return follow_to_the_end(client, run, as_json=as_json)


def list_runs(
    *, target: Target, as_json: bool, status: str | None, agent: str | None, search: str | None, limit: int
) -> int:
    """List runs."""
    filters = {"status": status, "agent": agent, "q": search}
    with closing(ApiClient(target)) as client:
        output = open_output(as_json=as_json)
        for run in _rows(client, "/runs", {k: v for k, v in filters.items() if v is not None}, limit):
            output.row(run, run_line(run))
    return 0


def show(*, target: Target, as_json: bool, run_id: str) -> int:
    """Show one run."""
    with closing(ApiClient(target)) as client:
        run = client.call("GET", f"/runs/{_check_id(run_id, 'run')}").body
    output = open_output(as_json=as_json)
    output.row(run, "\n".join(_describe_run(run, target)))
    return 0


def follow(*, target: Target, as_json: bool, run_id: str, after: str | None, give_up_seconds: float) -> int:
    """Follow a run from a cursor, or from its start."""
    with closing(ApiClient(target)) as client:
        run = client.call("GET", f"/runs/{_check_id(run_id, 'run')}").body
        return follow_to_the_end(client, run, as_json=as_json, after=after, give_up_seconds=give_up_seconds)


def stop(*, target: Target, as_json: bool, run_id: str, note: str, is_waiting: bool, is_forced: bool = False) -> int:
    """Ask a run to stop, or end it by force. Asking twice is harmless: after a lost answer, send the command again."""
    path = f"/runs/{_check_id(run_id, 'run')}"
    with closing(ApiClient(target)) as client:
        answer = client.call(
            "POST", f"{path}/force_stop" if is_forced else f"{path}/cancel", body={"note": note},
            lost=f"The run may still be working. Ask again: outlive run stop {run_id}{' --force' * is_forced}",
        )  # fmt: skip
        output = open_output(as_json=as_json)
        output.row(answer.body, "\n".join(_describe_stop(answer, is_forced=is_forced)))
        run = answer.body["run"]
        if not is_waiting:
            return 0
        if run["ended_at"] is not None:
            return end_of(run)
        cursor = f"{run['stream_id']}:{run['head_seq']}"
        return follow_to_the_end(client, run, as_json=as_json, after=cursor)


def retry(
    *,
    target: Target,
    as_json: bool,
    run_id: str,
    reason: str,
    is_everything: bool,
    redo: list[str],
    is_following: bool,
    key: str | None,
) -> int:
    """Ask for a new attempt. If the answer is lost, the same key makes a second try safe."""
    path = f"/runs/{_check_id(run_id, 'run')}/attempts"
    body = {
        "reason": reason,
        "reuse": "nothing" if is_everything else "finished",
        "redo": [_check_id(one, "op") for one in redo],
    }
    key = key or f"cli-{uuid.uuid4().hex}"
    with closing(ApiClient(target)) as client:
        run = client.call(
            "POST", path, body=body, headers={"Idempotency-Key": key},
            lost=f"The attempt may have begun. Send the same command again with --key {key}: "
            "that cannot begin a second one.",
        ).body  # fmt: skip
        open_output(as_json=as_json).row(run, f"{run['id']}  attempt {run['attempt']}")
        if not is_following:
            return 0
        return follow_to_the_end(client, run, as_json=as_json)


def answer(*, target: Target, as_json: bool, run_id: str, question_id: str, value: str) -> int:
    """Answer a question."""
    path = f"/runs/{_check_id(run_id, 'run')}/answers/{_check_id(question_id, 'q')}"
    with closing(ApiClient(target)) as client:
        body = client.call(
            "POST", path, body={"value": read_answer(value)},
            lost="The answer may have been taken. Sending the same one again changes nothing.",
        ).body  # fmt: skip
    open_output(as_json=as_json).row(body, f"Answered. The run goes on: {follow_command(run_id)}")
    return 0


def list_documents(*, target: Target, as_json: bool, limit: int) -> int:
    """List documents."""
    with closing(ApiClient(target)) as client:
        output = open_output(as_json=as_json)
        for document in _rows(client, "/documents", {}, limit):
            output.row(document, document_line(document))
    return 0


def upload_documents(*, target: Target, as_json: bool, files: list[str]) -> int:
    """Upload documents."""
    with closing(ApiClient(target)) as client:
        documents = upload(client, files)
    output = open_output(as_json=as_json)
    for document in documents:
        output.row(document, document_line(document))
    return 0


def _rows(client: ApiClient, path: str, filters: dict[str, str], limit: int) -> Iterator[dict[str, Any]]:
    cursor: str | None = None
    while limit > 0:
        size = min(limit, PAGE)
        page = client.call(
            "GET", path, params={**filters, "limit": str(size)} | ({"cursor": cursor} if cursor else {})
        ).body
        yield from page["data"]
        limit -= size
        cursor = page["next_cursor"]
        if cursor is None:
            return


def _describe_run(run: dict[str, Any], target: Target) -> list[str]:
    lines = [run_line(run), f"  {target.base_url}{run['links']['html']}"]
    if run.get("conversation_id"):
        lines.append(f"  turn {run['turn']} of {run['conversation_id']}")
    lines += child_lines(run)
    if run["deadline_at"] and not run["ended_at"]:
        lines.append(f"  stops itself at {run['deadline_at']}")
    questions = (run["waiting"] or {}).get("question_ids", [])
    lines += [f"  waits for your answer: outlive run answer {run['id']} {question} VALUE" for question in questions]
    if run["error"] is not None:
        lines.append(f"  {safe_line(run['error']['code'])}: {safe_line(run['error']['message'], 1000)}")
    if run["cancel"] is not None:
        cancel = run["cancel"]
        by = safe_line(cancel["by"] or "Outlive")
        lines.append(f"  stop asked {cancel['requested_at']} by {by} ({cancel['reason']})")
        lines += [f"    {describe_effect(effect)}" for effect in cancel["effects"]]
    lines += [f"  not settled: {operation_id}" for operation_id in run["unsettled_operations"]]
    if isinstance(run["result"], str):
        lines.append(safe(run["result"]))
    return lines


def _describe_stop(answer: Answer, *, is_forced: bool) -> list[str]:
    receipt = answer.body
    if receipt["too_late"]:
        return [f"It had ended before you asked: {receipt['status']}."]
    first = "Stop recorded. No new step will start." if answer.status == 202 else "Stop was recorded before."
    if is_forced:
        first = "It has ended. What has no proof is unknown and needs an operator's verdict."
    return [f"{first} Status: {receipt['status']}.", *(f"  {describe_effect(effect)}" for effect in receipt["effects"])]


def _read_policy(text: str) -> Any:
    if text in ("continue", "cancel"):
        return text
    try:
        return {"grace_s": float(text)}
    except ValueError:
        raise Usage(f"--on-disconnect {text[:40]!r}: write continue, cancel, or a number of seconds.") from None


def _check_on_busy(text: str) -> str:
    if text not in ("reject", "enqueue", "interrupt"):
        raise Usage(f"--on-busy {safe_line(text, 40)!r}: write reject, enqueue or interrupt.")
    return text


def _check_id(text: str, kind: str) -> str:
    if not _ID.fullmatch(text) or not text.startswith(f"{kind}_"):
        raise Usage(f"{safe_line(text, 60)!r} is no {kind} id; it looks like {kind}_0192….")
    return text
