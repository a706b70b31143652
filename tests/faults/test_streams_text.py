"""FAULTS B19, B20, B22: text that breaks lines, characters or databases arrives as it was, or as it is documented."""

import contextlib
import hashlib
import http.client
import json
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.test import Client as Browser
from pydantic import BaseModel

from runs.access import SCOPES, issue_token
from runs.agents import RunContext, agent
from runs.fold import fold_all
from runs.testing.lab import Outlive
from runs.testing.run import RunUnderTest
from streaming.client import Client, Event
from tests.faults.conftest import Check
from tests.runs.api.conftest import Caller
from tests.streaming.conftest import Site, running_server, token_of
from tests.streaming.test_live_js import a_page
from tools import ToolCall, tool
from tools.builtin import run_command
from tools.models.openai_compatible import OpenAICompatibleProvider

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(400)]
SEPARATORS = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg"
SEPARATORS_SHA256 = "5cd0170ed9f0190662a1ee6d56516755de4c748eb58d2a9d94752a3f96583f8e"
FAMILY = bytes.fromhex("f09f91a9e2808df09f91a9e2808df09f91a7e2808df09f91a6")  # 25 bytes, 7 code points
NULS: dict[str, Any] = {"real": "x\u0000y", "spelled": "\\u0000", "in a key": {"a\u0000b": 1}}
NULS_STORED: dict[str, Any] = {"real": "x\ufffdy", "spelled": "\\u0000", "in a key": {"a\ufffdb": 1}}


class Said(BaseModel):
    """What a person or a tool says."""

    text: str


@tool(effect="read", timeout_seconds=10)
async def say(call: ToolCall, name: str) -> Any:
    """Say what the case needs."""
    await call.progress(NULS[name] if name in NULS else SEPARATORS)
    return NULS.get(name, SEPARATORS)


@agent("b19_says", listed=False)
async def says(ctx: RunContext) -> Any:
    return [(await ctx.model("Say it.")).text, await ctx.tool(say, name="separators")]


@agent("b20_bytes", listed=False)
async def says_bytes(ctx: RunContext, said: Said) -> Any:
    return (await ctx.tool(run_command, command=said.text))["stdout"]


@agent("b20_model", listed=False)
async def says_model(ctx: RunContext) -> str:
    return (await ctx.model("Say it.")).text


@agent("b22_tools", listed=False)
async def says_nuls(ctx: RunContext) -> Any:
    return [await ctx.tool(say, name=name) for name in NULS]


@agent("b22_ask", listed=False)
async def asks(ctx: RunContext, said: Said) -> str:
    return said.text + (await ctx.ask("Well?", schema=Said)).text


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for the tests of this module."""
    with running_server(tmp_path_factory.mktemp("server")) as site:
        yield site


@pytest.fixture
def caller(outlive: Outlive) -> Caller:
    """A program of the person who starts the runs."""
    _, token = issue_token(user=outlive.actor.user, tenant=outlive.actor.tenant, name="faults", scopes=SCOPES)
    return Caller(outlive.actor, token, Browser(raise_request_exception=False))


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def texts_of(events: list[dict[str, Any]]) -> list[str]:
    """Give the model's text, the tool's progress and its result."""
    view = fold_all(events)
    tools = [step["tool"] for step in view["steps"] if step["tool"]]
    return [view["messages"][0]["text"], tools[0]["progress"], tools[0]["value"]]


def raw_answer(site: Site, run: RunUnderTest, token: str) -> bytes:
    """Read the whole stream as bytes: the run has ended, so it ends by itself."""
    at = urlsplit(site.base)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=30)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    with contextlib.closing(connection):
        connection.request("GET", f"/api/v1/runs/{run.id}/events", headers=headers)
        return connection.getresponse().read()


def test_b19_no_client_takes_a_separator_for_the_end_of_a_line(server: Site, outlive: Outlive, check: Check) -> None:
    assert sha256(SEPARATORS) == SEPARATORS_SHA256
    outlive.model.says([SEPARATORS])
    run = outlive.run("b19_says")
    assert run.result == [SEPARATORS, SEPARATORS]
    token = token_of(outlive.actor)
    raw = raw_answer(server, run, token)
    by_bytes = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
    careless = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    read: dict[str, list[dict[str, Any]]] = {
        "raw parser": [json.loads(data) for data in by_bytes],
        "str.splitlines()": [json.loads(data) for data in careless],
    }
    with Client(server.base, token) as client:
        for transport in ("websocket", "sse", "pages"):
            items = client.follow(run.id, transport=transport)
            read[transport] = [item.frame for item in items if isinstance(item, Event)]
    for reader, frames in read.items():
        events = [frame for frame in frames if "seq" in frame]
        assert [event["seq"] for event in events] == list(range(1, len(run.events) + 1)), reader
        assert {sha256(text) for text in texts_of(events)} == {SEPARATORS_SHA256}, reader
        assert sum(event["type"] == "text.delta" for event in events) == 1, reader
    check(run)


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not on PATH: live.js is not run")
def test_b19_the_page_shows_the_same_text(server: Site, outlive: Outlive) -> None:
    outlive.model.says([SEPARATORS])
    run = outlive.run("b19_says")
    with a_page(server, run.row, token_of(outlive.actor), query="") as page:
        page.until_state("ended")
        tools = [step["tool"] for step in page.view["steps"] if step["tool"]]
        shown = [page.view["messages"][0]["text"], tools[0]["progress"], tools[0]["value"]]
    assert {sha256(text) for text in shown} == {SEPARATORS_SHA256}


def one_byte_at_a_time(data: bytes) -> str:
    """Write a command that does it."""
    code = (
        "import os, sys, time\n"
        f"for one in bytes.fromhex('{data.hex()}'):\n"
        "    os.write(1, bytes([one]))\n"
        "    time.sleep(0.01)\n"
    )
    return shlex.join([sys.executable, "-I", "-S", "-c", code])


@pytest.mark.parametrize(
    ("tail", "shown"), [(b"", ""), (bytes.fromhex("f09f98"), "\ufffd")], ids=["whole", "truncated"]
)
def test_b20_characters_that_come_byte_by_byte_from_a_command_stay_whole(
    outlive: Outlive, check: Check, tail: bytes, shown: str
) -> None:
    run = outlive.run("b20_bytes", {"text": one_byte_at_a_time(FAMILY * 3 + tail)})
    assert run.status == "completed", run.error
    progress = [event["data"]["data"] for event in run.events if event["type"] == "tool.progress"]
    assert "".join(one["text"] for one in progress if one.get("stream") == "stdout") == FAMILY.decode() * 3 + shown
    assert run.result == FAMILY.decode() * 3 + shown
    check(run)


@contextlib.contextmanager
def a_model_server(data: bytes) -> Iterator[str]:
    """Serve a chat completion whose answer's bytes come one by one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.send_header("Connection", "close")
            self.end_headers()
            for one in data:
                self.wfile.write(b"1\r\n%c\r\n" % one)
                self.wfile.flush()
                time.sleep(0.001)  # so that each goes alone
            self.wfile.write(b"0\r\n\r\n")

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        thread.join(60)
        server.server_close()


def completion(*pieces: str) -> bytes:
    """Write an answer of the chat completions format, without escapes."""
    about = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "stub-1"}
    deltas = [({"content": piece}, None) for piece in pieces] + [({}, "stop")]
    chunks = [about | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]} for delta, reason in deltas]
    return (
        b"".join(b"data: " + json.dumps(c, ensure_ascii=False).encode() + b"\n\n" for c in chunks) + b"data: [DONE]\n\n"
    )


def test_b20_characters_that_come_byte_by_byte_from_a_model_stay_whole(outlive: Outlive, check: Check) -> None:
    family = FAMILY.decode()
    with a_model_server(completion(family, "\u4f60\u597d", family)) as url:
        outlive.model = OpenAICompatibleProvider(name="openai", model="m-1", base_url=url, api_key="k")
        run = outlive.run("b20_model")
    assert run.result == f"{family}\u4f60\u597d{family}"
    deltas = [event["data"]["delta"] for event in run.events if event["type"] == "text.delta"]
    assert "".join(deltas) == run.result
    check(run)


def test_b22_nul_in_results_is_replaced_and_what_only_spells_it_is_kept(outlive: Outlive, check: Check) -> None:
    run = outlive.run("b22_tools")
    assert run.status == "completed", run.error
    assert run.result == list(NULS_STORED.values())
    told = [event["data"]["value"] for event in run.events if event["type"] == "tool.result"]
    assert told == list(NULS_STORED.values())
    shown = [event["data"]["data"] for event in run.events if event["type"] == "tool.progress"]
    assert shown == list(NULS_STORED.values())
    check(run)


@pytest.mark.parametrize("name", list(NULS))
def test_b22_nul_in_a_command_is_refused_and_what_only_spells_it_is_kept(
    outlive: Outlive, caller: Caller, name: str
) -> None:
    value = NULS[name]
    body = {"text": value} if isinstance(value, str) else {"text": "x", **value}
    is_clean = name == "spelled"
    made = caller.post("/runs", {"agent": "b22_ask", "input": body})
    assert made.status_code == (201 if is_clean else 400), made.content
    run = outlive.start("b22_ask", {"text": "\\u0000"}).to_end()
    (question,) = caller.get(f"/runs/{run.id}").json()["waiting"]["question_ids"]
    answered = caller.post(f"/runs/{run.id}/answers/{question}", {"value": body})
    assert answered.status_code == (200 if is_clean else 400), answered.content
    note = value if isinstance(value, str) else "\u0000"
    stopped = caller.post(f"/runs/{run.id}/cancel", {"note": note})
    assert stopped.status_code == (202 if is_clean else 400), stopped.content
    if is_clean:
        run.to_end()
        asked = next(event for event in run.events if event["type"] == "run.cancel_requested")
        assert asked["data"]["note"] == "\\u0000"
        assert run.row.input["text"] == "\\u0000"
    else:
        assert run.status == "waiting"  # nothing of what was refused has happened


def test_b22_nul_in_a_search_finds_nothing_and_breaks_nothing(outlive: Outlive, admin_client: Browser) -> None:
    run = outlive.run("b22_tools")
    pages = ["/admin/runs/run/?q=%00", "/admin/runs/operation/?q=x%00y", f"/admin/runs/run/?q={run.id}%00"]
    for path in [*pages, "/runs/?q=%00", "/api/v1/runs?q=%00"]:
        answer = admin_client.get(path)
        assert answer.status_code < 500, path
    assert admin_client.get("/admin/runs/run/?q=%5Cu0000").status_code == 200
