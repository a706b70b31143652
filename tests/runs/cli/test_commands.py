"""The commands against a real server that plays a script: what is sent, what is shown, and the exit codes."""

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.runs.cli.conftest import (
    QUESTION_ID,
    RUN_ID,
    STREAM_ID,
    Outlive,
    Script,
    a_frame,
    a_run,
    drop,
    stream_of,
)


def an_error(code: str, message: str, param: str | None = None) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "param": param, "type": "x"}}


ENDINGS = [
    ("run.completed", {"result": "done"}, "completed", 0, "Completed"),
    ("run.failed", {"code": "boom", "message": "it broke"}, "failed", 1, "Failed (boom): it broke"),
    ("run.cancelled", {"reason": "client_gone", "effects": []}, "cancelled", 3, "Stopped (client_gone)"),
    ("run.needs_reconciliation", {"operations": []}, "needs_reconciliation", 4, "Being verified"),
]


@pytest.mark.parametrize(("event", "data", "status", "code", "words"), ENDINGS)
def test_start_follows_to_the_end_and_its_exit_code_says_how_it_ended(
    script: Script, outlive: Outlive, event: str, data: dict[str, Any], status: str, code: int, words: str
) -> None:
    script.answer("POST /runs", 201, a_run(status="queued"))
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status=status, ended_at="2026-11-29T12:00:09.000Z"))
    script.streams = [stream_of(a_frame(1, "run.created"), a_frame(2, "run.started"), a_frame(3, event, data))]
    ran = outlive("run", "start", "echo", "--input", "text=hello")
    assert ran.code == code, ran
    assert words in ran.out
    assert RUN_ID in ran.out
    created = script.asked_for("POST /api/v1/runs")
    assert len(created) == 1
    assert created[0].json() == {"agent": "echo", "input": {"text": "hello"}, "on_disconnect": "continue"}
    assert created[0].headers["authorization"] == "Bearer outlive_secret"
    assert created[0].headers["idempotency-key"].startswith("cli-")


def test_start_sends_what_its_options_say(script: Script, outlive: Outlive, tmp_path: Path) -> None:
    script.answer("POST /runs", 201, a_run())
    whole = tmp_path / "input.json"
    whole.write_text('{"text": "from the file", "n": 1}')
    ran = outlive(
        "run", "start", "echo", "--input-json", str(whole), "--input", "n:=2", "--input", "ok:=true", "--input", "s=2",
        "--deadline", "60", "--title", "T", "--key", "k-1", "--on-disconnect", "7.5", "--detach",
    )  # fmt: skip
    assert ran.code == 0
    sent = script.asked_for("POST /api/v1/runs")[0]
    assert sent.headers["idempotency-key"] == "k-1"
    assert sent.json() == {
        "agent": "echo",
        "input": {"text": "from the file", "n": 2, "ok": True, "s": "2"},
        "deadline_s": 60.0,
        "title": "T",
        "on_disconnect": {"grace_s": 7.5},
    }
    assert script.asked_for(f"GET /api/v1/runs/{RUN_ID}/events") == []


def test_the_input_may_come_from_stdin(script: Script, outlive: Outlive) -> None:
    script.answer("POST /runs", 201, a_run())
    assert outlive("run", "start", "echo", "--input-json", "-", "--detach", stdin='{"text": "你好"}').code == 0
    assert script.asked_for("POST /api/v1/runs")[0].json()["input"] == {"text": "你好"}


@pytest.mark.parametrize(
    "words",
    [
        ["run", "start"],
        ["run", "start", "echo", "--input", "nothing"],
        ["run", "start", "echo", "--input", "=x"],
        ["run", "start", "echo", "--input", "n:=nope"],
        ["run", "start", "echo", "--input", "n:=NaN"],
        ["run", "start", "echo", "--input-json", "/nonexistent.json"],
        ["run", "start", "echo", "--input-json", "/dev/null"],
        ["run", "start", "echo", "--deadline", "soon"],
        ["run", "start", "echo", "--on-disconnect", "later"],
        ["run", "start", "echo", "--file", "/nonexistent.pdf"],
        ["run", "show", "../../admin"],
        ["run", "show", "q_" + "0" * 32],
        ["run", "answer", RUN_ID, "nonsense", "1"],
        ["run", "list", "--limit", "0"],
        ["run", "explode"],
        ["documents", "upload", "/nonexistent"],
        ["documents", "upload", "/"],
    ],
)
def test_a_usage_error_is_2_and_nothing_is_sent(script: Script, outlive: Outlive, words: list[str]) -> None:
    ran = outlive(*words)
    assert ran.code == 2
    assert ran.err
    assert script.asked == []
    assert "Traceback" not in ran.err


def test_a_refusal_of_the_server_is_2_with_its_own_words_on_one_line(script: Script, outlive: Outlive) -> None:
    script.answer("POST /runs", 400, an_error("invalid_input", "must not\nbe \x1b[31mempty", "input.text"))
    ran = outlive("run", "start", "echo")
    assert ran.code == 2
    assert ran.err == "outlive: input.text: must not be empty\n"


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_that_cannot_work_is_5(script: Script, outlive: Outlive, status: int) -> None:
    script.answer("GET /runs", status, an_error("unavailable", "Try again in a moment."))
    ran = outlive("run", "list")
    assert (ran.code, ran.err) == (5, "outlive: Try again in a moment.\n")


def test_something_that_is_not_outlive_is_5(script: Script, outlive: Outlive) -> None:
    def html(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "6")
        handler.end_headers()
        handler.wfile.write(b"<html>")

    script.answers["GET /runs"] = (200, html, {})
    assert outlive("run", "list").code == 5


def test_no_server_is_5_and_says_that_nothing_was_sent(outlive: Outlive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLIVE_BASE_URL", "http://127.0.0.1:9")
    ran = outlive("run", "start", "echo", "--key", "k-1")
    assert ran.code == 5
    assert "Nothing was sent" in ran.err
    assert len(ran.err.splitlines()) == 1


def test_a_lost_answer_of_a_create_is_not_repeated_but_names_the_key(script: Script, outlive: Outlive) -> None:
    script.answers["POST /runs"] = (0, drop, {})
    ran = outlive("run", "start", "echo")
    assert ran.code == 5
    sent = script.asked_for("POST /api/v1/runs")
    assert len(sent) == 1
    assert f"--key {sent[0].headers['idempotency-key']}" in ran.err
    assert "may have been started" in ran.err


def test_a_replayed_create_says_so(script: Script, outlive: Outlive) -> None:
    script.answer("POST /runs", 200, a_run(), Idempotent_Replayed="true")
    ran = outlive("run", "start", "echo", "--detach", "--key", "k-1")
    assert "nothing new was started" in ran.err


def test_json_is_one_object_a_line_and_nothing_else_on_stdout(script: Script, outlive: Outlive) -> None:
    script.answer("POST /runs", 201, a_run(title="\x1b[31m\u2028"))
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status="completed", ended_at="x"))
    frames = [
        a_frame(1, "run.created"),
        a_frame(2, "text.delta", {"delta": "a\u2028\x1b[2Jb"}),
        a_frame(3, "run.completed"),
    ]
    script.streams = [stream_of({"type": "ready"}, *frames)]
    ran = outlive("run", "start", "echo", "--json")
    assert ran.code == 0
    assert ran.out.isascii()
    assert "\x1b" not in ran.out
    assert [row.get("object") or row["type"] for row in ran.rows] == [
        "run", "ready", "run.created", "text.delta", "run.completed", "closing", "run",
    ]  # fmt: skip
    assert ran.rows[3] == frames[1]
    assert ran.rows[-1]["status"] == "completed"


def test_json_errors_are_a_line_on_stdout_too(script: Script, outlive: Outlive) -> None:
    script.answer(f"GET /runs/{RUN_ID}", 404, an_error("not_found", "There is no such run."))
    ran = outlive("run", "show", RUN_ID, "--json")
    assert ran.code == 2
    assert ran.rows == [{"object": "error", "code": "not_found", "message": "There is no such run."}]


def test_list_reads_as_many_pages_as_it_needs_and_passes_filters_on(script: Script, outlive: Outlive) -> None:
    page = {"object": "list", "data": [a_run()] * 100, "has_more": True, "next_cursor": "c1"}
    script.answer("GET /runs", 200, page)
    ran = outlive("run", "list", "--status", "running,waiting", "--agent", "echo", "-q", "a b", "--limit", "150")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 200  # the script always gives whole pages
    first, second = (asked.path for asked in script.asked_for("GET /api/v1/runs"))
    assert first == "/api/v1/runs?status=running%2Cwaiting&agent=echo&q=a+b&limit=100"
    assert second.endswith("limit=50&cursor=c1")


def test_show_tells_questions_stops_and_errors(script: Script, outlive: Outlive) -> None:
    cancel = {
        "requested_at": "2026-11-29T12:00:03.000Z", "reason": "user", "by": "ann\x07",
        "effects": [{"name": "create_invoice", "outcome": "committed", "proof": "http 201"}],
    }  # fmt: skip
    script.answer(
        f"GET /runs/{RUN_ID}", 200,
        a_run(
            status="needs_reconciliation", title="\x1b]0;owned\x07Title", cancel=cancel,
            waiting={"for": "input", "wake_at": None, "question_ids": [QUESTION_ID]},
            error={"code": "boom", "message": "it broke"}, unsettled_operations=["op_1"],
        ),
    )  # fmt: skip
    ran = outlive("run", "show", RUN_ID)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert "\x07" not in ran.out
    assert "owned" not in ran.out
    for words in (
        "Being verified", "Title", f"outlive run answer {RUN_ID} {QUESTION_ID} VALUE", "boom: it broke",
        "by ann (user)", "create_invoice: already done (http 201)", "not settled: op_1",
    ):  # fmt: skip
        assert words in ran.out


def a_receipt(status: str, *, too_late: bool = False, ended_at: str | None = None) -> dict[str, Any]:
    return {
        "object": "cancel_receipt", "status": status, "too_late": too_late,
        "effects": [{"name": "send_mail", "outcome": "pending"}],
        "run": a_run(status=status, ended_at=ended_at, head_seq=7),
    }  # fmt: skip


def test_stop_sends_the_note_and_names_what_is_in_flight(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/cancel", 202, a_receipt("cancel_requested"))
    ran = outlive("run", "stop", RUN_ID, "--note", "wrong customer")
    assert ran.code == 0
    assert "No new step will start" in ran.out
    assert "send_mail: still in flight" in ran.out
    assert script.asked_for(f"POST /api/v1/runs/{RUN_ID}/cancel")[0].json() == {"note": "wrong customer"}


def test_stop_wait_waits_for_the_proof_from_where_the_stop_was_recorded(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/cancel", 202, a_receipt("cancel_requested"))
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status="cancelled", ended_at="x"))
    effects = [{"name": "send_mail", "outcome": "committed"}]
    script.streams = [stream_of(a_frame(8, "run.cancelled", {"reason": "user", "effects": effects}))]
    ran = outlive("run", "stop", RUN_ID, "--wait")
    assert ran.code == 3
    assert "send_mail: already done" in ran.out
    asked = script.asked_for(f"GET /api/v1/runs/{RUN_ID}/events")
    assert asked[0].headers["last-event-id"] == f"{STREAM_ID}:7"


def test_stop_of_a_run_that_has_ended_says_so(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/cancel", 200, a_receipt("completed", too_late=True, ended_at="x"))
    ran = outlive("run", "stop", RUN_ID, "--wait")
    assert ran.code == 0
    assert "It had ended before you asked: completed." in ran.out


def test_stop_force_asks_for_the_end_and_its_exit_code_says_what_came_of_it(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/force_stop", 200, a_receipt("needs_reconciliation", ended_at="x"))
    ran = outlive("run", "stop", RUN_ID, "--force", "--wait", "--note", "its target hangs")
    assert ran.code == 4
    assert "What has no proof is unknown" in ran.out
    assert script.asked_for(f"POST /api/v1/runs/{RUN_ID}/force_stop")[0].json() == {"note": "its target hangs"}


CONVERSATION_ID = "conv_" + "5" * 32


def test_start_sends_a_message_to_a_conversation_and_says_that_it_waits(script: Script, outlive: Outlive) -> None:
    waits = {"id": "next_" + "6" * 32, "object": "next_message", "waits_for": RUN_ID, "waits_until": "end"}
    script.answer("POST /runs", 202, waits)
    message = ["--input", "prompt=x", "--conversation", CONVERSATION_ID, "--on-busy", "enqueue"]
    ran = outlive("run", "start", "chat", *message)
    assert (ran.code, f"waits for the end of {RUN_ID}" in ran.out) == (0, True), ran.out
    sent = script.asked_for("POST /api/v1/runs")[0].json()
    assert (sent["conversation_id"], sent["on_busy"]) == (CONVERSATION_ID, "enqueue")


@pytest.mark.parametrize("options", [["--conversation", "conv_1"], ["--on-busy", "wait"]])
def test_start_refuses_what_is_no_conversation_or_policy(outlive: Outlive, options: list[str]) -> None:
    known = [] if "--conversation" in options else ["--conversation", CONVERSATION_ID]
    assert outlive("run", "start", "chat", *known, *options).code == 2


OPERATION_ID = "op_" + "4" * 32


def test_retry_sends_why_and_what_and_follows_the_new_attempt(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/attempts", 201, a_run(attempt=2, status="queued"))
    script.answer(f"GET /runs/{RUN_ID}", 200, a_run(status="completed", ended_at="x", attempt=2))
    frames = [
        a_frame(1, "attempt.created", {"retry_of": 1, "reason": "wrong customer"}) | {"attempt": 2},
        a_frame(2, "step.started", {"path": "1", "kind": "tool", "name": "read", "reused_from": 1}, "s"),
        a_frame(3, "run.completed", {"result": None}),
    ]
    script.streams = [stream_of(*frames)]
    ran = outlive("run", "retry", RUN_ID, "--reason", "wrong customer", "--redo", OPERATION_ID, "--key", "k")
    assert ran.code == 0, ran.out
    assert "Attempt 2, retry of 1: wrong customer" in ran.out
    assert "step 1 read (from attempt 1)" in ran.out
    (asked,) = script.asked_for(f"POST /api/v1/runs/{RUN_ID}/attempts")
    assert asked.json() == {"reason": "wrong customer", "reuse": "finished", "redo": [OPERATION_ID]}
    assert asked.headers["idempotency-key"] == "k"


def test_retry_of_everything_may_be_left_alone(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/attempts", 201, a_run(attempt=2, status="queued"))
    ran = outlive("run", "retry", RUN_ID, "--everything", "--detach")
    assert (ran.code, "attempt 2" in ran.out) == (0, True)
    assert script.asked_for(f"POST /api/v1/runs/{RUN_ID}/attempts")[0].json()["reuse"] == "nothing"


def test_retry_takes_no_other_ids(outlive: Outlive) -> None:
    assert outlive("run", "retry", RUN_ID, "--redo", "op_1").code == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [("true", True), ("5", 5), ("yes", "yes"), ('{"ok": true}', {"ok": True}), ('"5"', "5"), ("NaN", "NaN")],
)
def test_answer_sends_json_where_it_is_json_and_text_elsewhere(
    script: Script, outlive: Outlive, text: str, value: Any
) -> None:
    script.answer(f"POST /runs/{RUN_ID}/answers/{QUESTION_ID}", 200, {"object": "question"})
    ran = outlive("run", "answer", RUN_ID, QUESTION_ID, text)
    assert ran.code == 0
    assert script.asked[0].json() == {"value": value}
    assert f"outlive run follow {RUN_ID}" in ran.out


def test_an_answer_that_came_too_late_is_2(script: Script, outlive: Outlive) -> None:
    script.answer(f"POST /runs/{RUN_ID}/answers/{QUESTION_ID}", 409, an_error("too_late", "Closed already."))
    assert outlive("run", "answer", RUN_ID, QUESTION_ID, "x").code == 2


def a_document(name: str, error: str | None = None) -> dict[str, Any]:
    return {"id": "doc_" + "4" * 32, "object": "document", "bytes": 5, "name": name, "error": error}


def test_files_are_uploaded_and_their_ids_given_to_the_run(script: Script, outlive: Outlive, tmp_path: Path) -> None:
    file = tmp_path / "notes.md"
    file.write_text("# Notes")
    script.answer("POST /documents", 201, {"object": "list", "data": [a_document("notes.md")]})
    script.answer("POST /runs", 201, a_run())
    assert outlive("run", "start", "researcher", "--file", str(file), "--input", "question=why", "--detach").code == 0
    sent = script.asked_for("POST /api/v1/documents")[0]
    assert b'name="file"; filename="notes.md"' in sent.body
    assert b"# Notes" in sent.body
    body = script.asked_for("POST /api/v1/runs")[0].json()
    assert body["input"] == {"question": "why", "documents": ["doc_" + "4" * 32]}


def test_documents_are_listed_with_why_they_cannot_be_read(script: Script, outlive: Outlive) -> None:
    data = [a_document("a.md"), a_document("\x1b[1mb.pdf", "is protected by a password")]
    script.answer("GET /documents", 200, {"object": "list", "data": data, "has_more": False, "next_cursor": None})
    ran = outlive("documents", "list")
    assert ran.code == 0
    assert "b.pdf  cannot be read: is protected by a password" in ran.out
    assert "\x1b" not in ran.out
    assert [row["name"] for row in outlive("documents", "list", "--json").rows] == ["a.md", "\x1b[1mb.pdf"]


def test_uploading_shows_each_document(script: Script, outlive: Outlive, tmp_path: Path) -> None:
    names = ["a.txt", "b.txt"]
    for name in names:
        (tmp_path / name).write_text(name)
    script.answer("POST /documents", 201, {"object": "list", "data": [a_document(name) for name in names]})
    ran = outlive("documents", "upload", *(str(tmp_path / name) for name in names), "--json")
    assert [row["name"] for row in ran.rows] == names
    assert json.loads(json.dumps(ran.rows)) == [a_document(name) for name in names]
