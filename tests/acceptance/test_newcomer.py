"""The newcomer's path over HTTP, WebSocket and the command line, with a killed worker and a killed web server."""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.acceptance.conftest import Follow
from tests.stack import ROOT, LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]
SAMPLES = ROOT / "runs" / "documents" / "sample"


def assert_exact(events: list[dict], stored: list[dict]) -> None:
    """A reader has seen every stored event once, in order."""
    assert [e["seq"] for e in stored] == list(range(1, len(stored) + 1))
    assert events == stored


def test_a_report_is_complete_although_worker_and_web_were_killed(
    stack: LiveStack, follow: Follow, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is no pdf")
    files = [str(p) for p in sorted(SAMPLES.glob("*")) if p.suffix in {".md", ".txt", ".html"}] + [str(broken)]
    uploaded = stack.cli("documents", "upload", *files, "--json")
    assert uploaded.returncode == 0, uploaded.stderr
    started = stack.cli(
        "run", "start", "researcher", "--input", "question=What happened in the March outage, and what did it cost?",
        "--detach", "--json",
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    run_id = json.loads(started.stdout.splitlines()[0])["id"]

    reader, worker = follow(run_id), stack.the("runs.execution.worker_main")
    reader.until("text.delta", count=3)
    worker.kill()  # in the middle of a model step
    reader.until("claim.lost")
    reader.until("text.delta", count=3)
    stack.kill("streaming.server")  # in the middle of the stream
    reader.to_the_end()
    seen = len(reader.events)
    wait_until(lambda: is_up(stack), what="the web server's return")
    reader.open().to_the_end()
    assert len(reader.events) > seen

    run = stack.wait(run_id, seconds=240)
    assert run["status"] == "completed", run["error"]
    stored = stack.events(run_id)
    assert_exact(reader.events, stored)
    assert stored[-1]["type"] == "run.completed"
    assert [e["type"] for e in stored].count("run.completed") == 1
    assert_superseded_text_is_closed(stored)

    artifacts = stack.client.get(f"/runs/{run_id}/artifacts").json()["data"]
    report = stack.client.get(f"/runs/{run_id}/artifacts/{artifacts[0]['id']}").text
    assert "[1]" in report
    assert "incident-2026-03-14-outage.md" in report
    assert "broken.pdf" in report

    shown = stack.cli("run", "show", run_id, "--json")
    assert json.loads(shown.stdout)["status"] == "completed"
    followed = stack.cli("run", "follow", run_id, "--json")
    assert followed.returncode == 0
    lines = [json.loads(line) for line in followed.stdout.splitlines()]
    assert [line for line in lines if "seq" in line] == stored


def is_up(stack: LiveStack) -> bool:
    try:
        return stack.client.get("/runs").status_code == 200
    except httpx.TransportError:
        return False


def assert_superseded_text_is_closed(stored: list[dict]) -> None:
    """The text of the killed worker ended as superseded; every other text is final."""
    ends = [e["data"] for e in stored if e["type"] == "text.end"]
    starts = [e for e in stored if e["type"] == "text.start"]
    assert len(starts) == len(ends)
    assert any(end.get("reason") == "superseded" for end in ends)
    assert all(end["final"] or end["reason"] == "superseded" for end in ends)


def test_one_invoice_is_sent_once(stack: LiveStack) -> None:
    billed = stack.start("billing", {"customer": "Ada", "cents": 1250})
    run = stack.wait(billed["id"], seconds=120)
    assert run["status"] == "completed"
    assert list(stack.effects(run["id"]).values()) == [1]


def test_exit_codes_say_how_a_run_ended(stack: LiveStack) -> None:
    assert stack.cli("run", "start", "nobody", "--input", "a=b").returncode == 2
    done = stack.start("probe", {"key": "exit0", "n": 1})
    assert stack.cli("run", "follow", done["id"]).returncode == 0
    held = stack.start("probe", {"key": "exit3", "n": 10, "hold_at": 5})
    wait_until(lambda: stack.probe("exit3").deltas >= 5, what="the held stream")
    stopped = stack.cli("run", "stop", held["id"], "--wait")
    assert stopped.returncode == 3, stopped.stdout + stopped.stderr
    stack.switch(never_answer=True, lookup_fails=True)
    unknown = stack.start("probe", {"key": "exit4", "n": 0, "tool": "invoice"})
    wait_until(lambda: stack.effects(unknown["id"]), what="the effect whose answer never comes")
    assert stack.stop(unknown["id"]).status_code == 202
    assert stack.cli("run", "follow", unknown["id"]).returncode == 4
    gone = stack.cli("run", "list", "--base-url", "http://127.0.0.1:9")
    assert gone.returncode == 5


def test_a_command_of_manage_py_reaches_what_runs(stack: LiveStack) -> None:
    asked = subprocess.run(
        [sys.executable, "-m", "config.stack", "manage", "outlive_purge", "--dry-run", "--json"], cwd=ROOT,
        env=os.environ | {"OUTLIVE_STATE": str(stack.state)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout)["due"]["held"] == {"runs": 0}
