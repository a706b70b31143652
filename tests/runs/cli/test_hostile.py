"""Servers that are not Outlive, or not well: one line and exit code 5, and nothing that drives the screen."""

import gzip
import json
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from typer.testing import CliRunner

from runs.cli import api
from runs.cli.app import app
from tests.runs.cli.conftest import RUN_ID, Script, a_run
from tests.streaming.hostile import JSON, a_hostile_server, answer

ESCAPES = "\x1b]0;pwned\x07\x1b[2J\x9b31m\u202e"
COMMANDS = [
    ["run", "list"], ["run", "show", RUN_ID], ["run", "follow", RUN_ID], ["run", "stop", RUN_ID],
    ["run", "start", "chat", "--detach"], ["run", "retry", RUN_ID, "--detach"], ["documents", "list"],
    ["shell", "list"],
]  # fmt: skip
BODIES = [
    b"[]", b"null", b"1", b'"x"', b"{}", b'{"data":null}', b'{"data":[1,null],"has_more":false,"next_cursor":null}',
    b"[" * 200_000, b'{"id":"\\ud800\\u0000/../","object":"run","status":"completed"}',
]  # fmt: skip


@pytest.fixture
def base() -> Iterator[Any]:
    with a_hostile_server() as server:
        yield server


def said_by(base_url: str, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, [*arguments, "--base-url", base_url, "--token", "outlive_x"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_an_answer_that_is_none_of_ours_is_said_in_one_line(base: Any, command: list[str]) -> None:
    """Each was a traceback."""
    for body in BODIES:
        base.bytes = answer("200 OK", body, JSON)
        code, said = said_by(base.base, *command)
        assert (code, len(said.splitlines())) == (5, 1), (body[:80], said)
        assert "Is the address right?" in said


@pytest.mark.parametrize("option", ["--deadline=nan", "--on-disconnect=nan", "--key=ключ"])
def test_what_no_request_can_say_is_not_blamed_on_the_server(base: Any, option: str) -> None:
    code, said = said_by(base.base, "run", "start", "chat", "--input", "prompt=hi", option)
    assert (code, len(said.splitlines())) == (2, 1)
    assert "Nothing was sent." in said
    assert not base.asked.acquire(blocking=False)


def test_a_refusal_that_is_none_of_ours_is_a_refusal(base: Any) -> None:
    base.bytes = answer("400 Bad Request", b"[" * 200_000, JSON)
    assert said_by(base.base, "run", "list") == (2, "outlive: The server answered 400.\n")


def test_ids_and_times_do_not_drive_the_screen(script: Script) -> None:
    run = a_run(id=RUN_ID + ESCAPES, created_at=ESCAPES, status=ESCAPES, parent_id=ESCAPES)
    script.answer("GET /runs", 200, {"data": [run], "has_more": False, "next_cursor": None})
    script.answer(f"GET /runs/{RUN_ID}", 200, run)
    refused = {"error": {"code": ESCAPES, "message": ESCAPES + "no", "param": ESCAPES}}
    script.answer(f"POST /runs/{RUN_ID}/cancel", 400, refused)
    for command in (["list"], ["show", RUN_ID], ["stop", RUN_ID]):
        said = CliRunner().invoke(app, ["run", *command, "--base-url", script.base_url, "--token", "outlive_x"]).output
        assert said.strip()
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said), (command, said)
        assert "pwned" not in said


def test_an_answer_without_an_end_is_given_up(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "MOST_BYTES", 1 << 20)

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Connection", "close")
        handler.end_headers()
        with suppress(OSError):  # the client has gone
            for _ in range(1000):
                handler.wfile.write(b"[" * 65_536)

    script.answers["GET /runs"] = (200, endless, {})
    code, said = said_by(script.base_url, "run", "list")
    assert code == 5
    assert "more than Outlive ever says" in said


def test_an_answer_that_is_compressed_is_read(base: Any) -> None:
    body = gzip.compress(json.dumps({"data": [a_run()], "has_more": False, "next_cursor": None}).encode())
    base.bytes = answer("200 OK", body, JSON, "Content-Encoding: gzip")
    code, said = said_by(base.base, "run", "list")
    assert (code, RUN_ID in said) == (0, True)
