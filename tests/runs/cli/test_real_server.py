"""The command line against our own server process: a whole life over a SIGKILL of the server in mid-stream."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connections
from typer.testing import CliRunner

from runs.access import Actor
from runs.cli.app import app
from runs.cli.telling import Teller
from runs.database import decide
from runs.decisions import endings
from runs.decisions.core import Fact
from runs.ids import parse_id
from runs.models import Run
from runs.states import Status
from tests.builders import a_claim
from tests.runs.cli.conftest import Ran
from tests.streaming import conftest as streaming_site
from tests.streaming.conftest import ROOT, Site, running_server, token_of
from tests.streaming.writing import emit

WORDS = [f"w{n:03}" for n in range(60)]


@pytest.fixture
def site(transactional_db: None, tmp_path: Path) -> Iterator[Site]:
    with running_server(tmp_path) as running:
        yield running


def outlive(site: Site, token: str, *words: str) -> Ran:
    result = CliRunner().invoke(app, [*words, "--base-url", site.base, "--token", token], prog_name="outlive")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Ran(result.exit_code, result.stdout, result.stderr)


def start_again(site: Site) -> subprocess.Popen[bytes]:
    """Start another server at the same address."""
    env = {
        **os.environ,
        "DATABASE_URL": streaming_site.test_database_url(),
        "DJANGO_SETTINGS_MODULE": "config.settings",
    }
    env["OUTLIVE_SECRET_KEY"] = settings.SECRET_KEY
    port = site.base.rsplit(":", 1)[1]
    with site.log_path.open("ab") as log:
        command = [sys.executable, "-m", "streaming.server", "--port", port]
        return subprocess.Popen(command, cwd=ROOT, env=env, stdout=log, stderr=log)


def say(words: list[str]) -> list[Fact]:
    return [Fact("text.delta", {"message_id": "msg_1", "delta": f"{word}\n"}) for word in words]


def test_a_run_is_started_followed_over_the_death_of_the_server_and_ends_with_0(site: Site, owner: Actor) -> None:
    token = token_of(owner)
    started = outlive(site, token, "run", "start", "probe", "--input", "key=k", "--detach", "--json")
    assert started.code == 0, started
    run_id = started.rows[0]["id"]
    second: list[subprocess.Popen[bytes]] = []
    failures: list[BaseException] = []

    def live() -> None:
        """Be the worker, and kill the server between two words."""
        try:
            run = Run.objects.get(pk=parse_id("run", run_id))
            fence = a_claim(run)
            emit(run, Fact("text.start", {"message_id": "msg_1", "role": "assistant"}), *say(WORDS[:20]))
            assert following.wait(30)
            site.process.kill()
            site.process.wait(60)
            emit(run, *say(WORDS[20:40]))
            second.append(start_again(site))
            emit(run, *say(WORDS[40:]), Fact("text.end", {"message_id": "msg_1", "final": True}))
            decide(endings.finish_run(run_id=run.pk, fence=fence, status=Status.COMPLETED, result="done"))
        except BaseException as error:
            failures.append(error)
        finally:
            connections.close_all()

    following = threading.Event()
    worker = threading.Thread(target=live)
    worker.start()
    try:
        followed = follow_and_tell(site, token, run_id, following)
    finally:
        worker.join(30)
        for process in second:
            process.kill()
            process.wait(60)
    assert failures == []
    assert followed.code == 0, followed
    assert [line for line in followed.out.splitlines() if line.startswith("w")] == WORDS
    assert "the run goes on" in followed.err
    assert f"Completed. {run_id}" in followed.out


def follow_and_tell(site: Site, token: str, run_id: str, following: threading.Event) -> Ran:
    """Follow, and say when the first text was seen."""
    tell = Teller.tell

    def tell_and_say(self: Teller, frame: dict[str, Any]) -> list[str]:
        lines = tell(self, frame)
        if frame["type"] == "text.delta":
            following.set()
        return lines

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Teller, "tell", tell_and_say)
        return outlive(site, token, "run", "follow", run_id)


def test_stop_of_a_queued_run_is_proven_at_once_and_its_stream_is_over(site: Site, owner: Actor) -> None:
    token = token_of(owner)
    run_id = outlive(site, token, "run", "start", "probe", "--input", "key=k", "--detach", "--json").rows[0]["id"]
    stopped = outlive(site, token, "run", "stop", run_id, "--wait")
    assert stopped.code == 3, stopped
    followed = outlive(site, token, "run", "follow", run_id, "--json")
    assert followed.code == 3
    kinds = [row["type"] for row in followed.rows if "seq" in row]
    assert kinds[0] == "run.created"
    assert kinds[-1] == "run.cancelled"
    assert outlive(site, token, "run", "list", "--status", "cancelled", "--json").rows[0]["id"] == run_id
    assert outlive(site, token, "run", "show", run_id).code == 0
    assert outlive(site, "outlive_wrong", "run", "list").code == 2
