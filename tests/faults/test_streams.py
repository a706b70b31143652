"""FAULTS B, what a tool brings that may break a stream: bytes that are no text, lines longer than any buffer."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from websockets.sync.client import connect

from runs.agents import RunContext, agent
from runs.conf import limits
from runs.errors import TooLarge
from runs.frames import GLUE
from runs.testing.lab import Outlive
from runs.testing.run import RunUnderTest
from streaming.protocol import json_list
from tests.faults.conftest import Check
from tests.streaming.conftest import Site, Watcher, call, running_server, token_of
from tools.builtin import run_command
from tools.builtin.command import OUTPUT_BYTES, PROGRESS_CHARACTERS

LENGTHS = (7999, 8000, 65535, 65536, 65537, 1048576)


class Words(BaseModel):
    """A command."""

    text: str


class Long(BaseModel):
    """A long answer."""

    text: str


@agent("b21_command", listed=False)
async def command(ctx: RunContext, words: Words) -> Any:
    return await ctx.tool(run_command, command=words.text, timeout_seconds=60)


@agent("b23_answer", listed=False)
async def length_of_an_answer(ctx: RunContext) -> int:
    return len((await ctx.ask("What is long?", schema=Long)).text)


@pytest.fixture(scope="module")
def server(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One server for the tests of this module."""
    with running_server(tmp_path_factory.mktemp("server")) as site:
        yield site


def read_alike(site: Site, run: RunUnderTest) -> list[dict[str, Any]]:
    """Read an ended run as a socket, SSE and pages give it, and see that it is the stored one each time.

    The socket takes messages up to the usual 1 MiB, as any client: a larger one would end it with 1009.
    """
    token, url = token_of(run.actor), f"{site.base.replace('http', 'ws')}/ws/v1/runs/{run.id}/"
    with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None) as opened:
        watcher = Watcher(opened)
        assert watcher.close_code() == 1000
    assert watcher.events == run.events
    path = f"/api/v1/runs/{run.id}/events"
    sse = call(site, "GET", path, token, Accept="text/event-stream").body
    frames = [line[6:] for line in sse.split(b"\n") if line.startswith(b'data: {"seq":')]
    pages: list[bytes] = []
    after = ""
    while True:
        page = call(site, "GET", f"{path}?limit=100{after}", token)
        pages.append(page.body.partition(b',"data":')[2][1:-2])
        if not page.json()["has_more"]:
            break
        after = f"&after={page.json()['next_cursor']}"
    assert GLUE.join(frames) == GLUE.join(pages)
    assert json_list(GLUE.join(frames)).isascii()
    return watcher.events


def after_reload(site: Site, run: RunUnderTest) -> dict[str, Any]:
    """Load the run as a page does, and give the view."""
    token, url = token_of(run.actor), f"{site.base.replace('http', 'ws')}/ws/v1/runs/{run.id}/?snapshot=1"
    with connect(url, additional_headers={"Authorization": f"Bearer {token}"}, compression=None) as opened:
        watcher = Watcher(opened)
        watcher.until("caught_up")
    text = "".join(c.get("text", "") for c in watcher.controls if c["type"] == "snapshot")
    return next((c["view"] for c in watcher.controls if "view" in c), None) or json.loads(text)


def shown(events: list[dict[str, Any]], stream: str = "stdout") -> str:
    """Join what the command's output was while it ran."""
    said = [event["data"]["data"] for event in events if event["type"] == "tool.progress"]
    return "".join(one["text"] for one in said if one.get("stream") == stream)


def test_b21_bytes_that_are_no_text_become_replacement_characters_and_the_run_goes_on(
    outlive: Outlive, server: Site, check: Check
) -> None:
    run = outlive.run("b21_command", {"text": r"printf '\377\376\000A\303('"})
    events = read_alike(server, run)
    assert (run.status, run.result["exit_code"], run.result["stdout_bytes"]) == ("completed", 0, 6)
    # U+0000 has no place in PostgreSQL's text and becomes one as well (runs/frames.py).
    assert shown(events) == run.result["stdout"] == "\ufffd\ufffd\ufffdA\ufffd("
    assert after_reload(server, run)["result"] == run.result
    check(run)


@pytest.mark.parametrize("source", ["/dev/urandom", "/dev/zero | tr '\\0' '\\377'"])
def test_b21_64_kib_of_noise_on_both_outputs_is_the_same_noise_everywhere(
    outlive: Outlive, server: Site, check: Check, tmp_path: Path, source: str
) -> None:
    """Escaped it is six times as long: no message may pass the 1 MiB that a usual client takes."""
    files = [tmp_path / name for name in ("out", "err")]
    noise = f"head -c 65536 {source} | tee {files[0]}; head -c 65536 {source} | tee {files[1]} >&2"
    run = outlive.run("b21_command", {"text": noise})
    out, err = (path.read_bytes().decode(errors="replace").replace("\0", "\ufffd") for path in files)
    events = read_alike(server, run)
    assert (run.status, run.result["exit_code"], run.result["truncated"]) == ("completed", 0, False)
    assert (run.result["stdout"], run.result["stderr"]) == (out, err)
    assert (shown(events, "stdout"), shown(events, "stderr")) == (out, err)
    assert after_reload(server, run)["result"] == run.result
    check(run)


@pytest.mark.parametrize("length", LENGTHS)
def test_b23_a_long_line_of_a_tool_is_whole_or_says_how_long_it_was(
    outlive: Outlive, server: Site, check: Check, length: int
) -> None:
    run = outlive.run("b21_command", {"text": f"python3 -c \"print('x'*{length})\""})
    events, whole = read_alike(server, run), "x" * length + "\n"
    result = run.result
    assert (run.status, result["exit_code"], result["stdout_bytes"]) == ("completed", 0, length + 1)
    assert result["truncated"] is (length + 1 > OUTPUT_BYTES)
    cut = f"\n[output cut: {OUTPUT_BYTES} of {length + 1} bytes kept]" if result["truncated"] else ""
    assert result["stdout"] == whole[:OUTPUT_BYTES] + cut
    (told,) = [event["data"]["value"] for event in events if event["type"] == "tool.result"]
    assert told == result or (told["shortened"] and f'"stdout_bytes": {length + 1}, ' in told["begins"])
    assert shown(events) == whole[:PROGRESS_CHARACTERS]
    notes = [event["data"]["data"] for event in events if "note" in str(event["data"].get("data"))]
    assert bool(notes) is (length + 1 > PROGRESS_CHARACTERS)
    assert after_reload(server, run)["result"] == result
    check(run)


@pytest.mark.parametrize("length", LENGTHS)
def test_b23_a_long_answer_is_whole_or_refused_with_nothing_half_done(
    outlive: Outlive, server: Site, check: Check, length: int
) -> None:
    run = outlive.run("b23_answer")
    if length > limits().max_input_bytes:
        before = run.types
        with pytest.raises(TooLarge):
            run.answer({"text": "y" * length})
        assert (run.questions, run.types) == (["What is long?"], before)
        length = 7
    run.answer({"text": "y" * length})
    assert run.to_end().result == length
    (answered,) = [event for event in read_alike(server, run) if event["type"] == "input.answered"]
    assert answered["data"]["value"] == {"text": "y" * length}
    assert after_reload(server, run)["result"] == length
    check(run)
