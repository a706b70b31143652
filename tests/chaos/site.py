"""One installation for chaos: two workers, seams that can be armed while it runs, and its rows read from outside."""

import contextlib
import os
import pwd
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import psutil
import psycopg
import redis
from psycopg.rows import dict_row

from runs.ids import parse_id, text_id
from tests.explore import invariants
from tests.stack import LiveStack, live_stack, wait_until

LOOK_UP_SECONDS = 15  # the first one of a worker may take seconds
WORKERS = 2
WORKER_PID = re.compile(r'"worker": "[^":]+:(\d+):')
ROW = "select status, fence, lease_owner, last_seq, waiting_for, version from runs_run where id = %s"
COMMANDS = "select key from runs_operation where run_id = %s and is_process"
CHILDREN = "select id from runs_run where parent_id = %s order by id"
HELD = """
select id, lease_owner from runs_run where (id = %(run)s or parent_id = %(run)s) and lease_owner is not null
order by id limit 1"""
QUESTION = "select id from runs_question where run_id = %s and state = 'open'"


@dataclass
class Site:
    """A running installation."""

    stack: LiveStack
    seams: Path
    _environ: dict[str, str] = field(init=False)
    _connection: psycopg.Connection[dict[str, Any]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._environ = self.stack.the("streaming.server").environ()

    def database[T](self, use: Callable[[psycopg.Connection[dict[str, Any]]], T], *, seconds: float = 20.0) -> T:
        """Use the installation's database, and try again while it is away."""
        give_up_at = time.monotonic() + seconds
        while True:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(
                        self._environ["DATABASE_URL"], autocommit=True, row_factory=dict_row
                    )
                return use(self._connection)
            except psycopg.OperationalError:
                self.close()
                if time.monotonic() > give_up_at:
                    raise
                time.sleep(0.05)

    def close(self) -> None:
        """Let the database go."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def redis(self) -> redis.Redis:
        """Return a client; close it."""
        return redis.Redis.from_url(self._environ["REDIS_URL"])

    def row(self, run_id: str) -> dict[str, Any]:
        """Return what the row says now."""
        found = self.database(lambda connection: connection.execute(ROW, [uuid_of(run_id)]).fetchone())
        assert found is not None
        return found

    def held(self, run_id: str) -> tuple[str, int] | None:
        """Return the run that a worker holds and that worker's process: this one, or the child that it waits for."""
        found = self.database(lambda connection: connection.execute(HELD, {"run": uuid_of(run_id)}).fetchone())
        return (text_id("run", found["id"]), int(found["lease_owner"].split(":")[1])) if found else None

    def holder(self, run_id: str) -> int:
        """Return the process that holds the run or its child; where nobody does, one of the workers."""
        if held := self.held(run_id):
            return held[1]
        workers = wait_until(lambda: self.stack.processes("runs.execution.worker_main"), what="a worker")
        return int(workers[0].pid)

    def whole(self) -> dict[str, list[psutil.Process]]:
        """Return every program once all of them run: what dies again and again starts later each time."""
        parts = {"streaming.server": 1, "outlive_supervisor": 1, "runs.execution.worker_main": WORKERS}
        found: dict[str, list[psutil.Process]] = {}

        def look() -> bool:
            found.update({marker: self.stack.processes(marker) for marker in parts})
            workers = {process.pid for process in found["runs.execution.worker_main"]}
            return all(len(found[marker]) == count for marker, count in parts.items()) and workers <= self._ready()

        wait_until(look, seconds=60, what="every program")
        self.http(lambda: self.stack.client.get("/runs"))
        return found

    def _ready(self) -> set[int]:
        """Return the workers that have said that they are ready."""
        lines = (self.stack.state / "logs" / "workers.log").read_text(errors="replace").splitlines()
        return {int(pid) for line in lines if "worker.ready" in line for pid in WORKER_PID.findall(line)}

    def wait_awake(self) -> None:
        """Return once every worker has carried something: a run for each, and one more."""
        for number in range(WORKERS + 1):
            run_id = self.start(f"awake-{number}-{time.monotonic_ns()}", "read", hold=False)
            self.stack.wait(run_id)

    def http(self, ask: Callable[[], httpx.Response], *, seconds: float = 60.0) -> httpx.Response:
        """Ask the web server, and try again while it is away, as any client would."""
        give_up_at = time.monotonic() + seconds
        while True:
            with contextlib.suppress(httpx.TransportError):
                answer = ask()
                if answer.status_code < 500:
                    return answer
            assert time.monotonic() < give_up_at, "the web server did not come back"
            time.sleep(0.1)

    def start(self, key: str, what: str, *, hold: bool) -> str:
        """Start a run of the chaos agent; the key makes a repeated request harmless."""
        body = {"agent": "chaos", "input": {"key": key, "what": what, "hold": hold}, "deadline_s": 120}
        answer = self.http(
            lambda: self.stack.client.post("/runs", json=body, headers={"Idempotency-Key": key}), seconds=60
        )
        assert answer.status_code in (200, 201), answer.text
        return str(answer.json()["id"])

    def answer_question(self, run_id: str) -> None:
        """Say yes to what the run asks."""
        found = self.database(lambda connection: connection.execute(QUESTION, [uuid_of(run_id)]).fetchone())
        assert found is not None
        path = f"/runs/{run_id}/answers/q_{found['id'].hex}"
        answer = self.http(lambda: self.stack.client.post(path, json={"value": {"approve": True}}))
        assert answer.status_code == 200, answer.text

    def retry(self, run_id: str) -> None:
        """Ask for another attempt once the run has failed."""
        self.stack.wait(run_id, "failed")
        answer = self.http(lambda: self.stack.client.post(f"/runs/{run_id}/attempts", json={}))
        assert answer.status_code in (200, 201), answer.text

    def stop(self, run_id: str) -> None:
        """Ask the run to stop."""
        answer = self.http(lambda: self.stack.stop(run_id))
        assert answer.status_code in (200, 202), answer.text

    def effects(self, run_id: str) -> dict[str, int]:
        """Return how often each operation took effect; keys of a target that takes none end in #<random>."""
        counts: dict[str, int] = {}
        for key, count in self.stack.effects(run_id).items():
            name = key.partition("#")[0]
            counts[name] = counts.get(name, 0) + count
        return counts

    def broken(self, run_id: str) -> list[str]:
        """Return what is wrong with an ended run and its children: rows, effects, and processes that were left."""
        children = self.database(lambda connection: connection.execute(CHILDREN, [uuid_of(run_id)]).fetchall())
        of_children = [self.broken(text_id("run", child["id"])) for child in children]
        return sum(of_children, self._broken(run_id))

    def _broken(self, run_id: str) -> list[str]:
        run = uuid_of(run_id)
        rows = self.database(lambda connection: connection.execute(invariants.READ, {"run": run}).fetchone())
        assert rows is not None
        commands = self.database(lambda connection: connection.execute(COMMANDS, [run]).fetchall())
        keys = {command["key"] for command in commands}  # what a process did is not counted at the target
        counted = rows | {"operations": [o for o in rows["operations"] if o["key"] not in keys]}
        landed = {key: count for key, count in self.effects(run_id).items() if key not in keys}
        return [
            *_told(lambda: invariants.check_rows(rows)),
            *_told(lambda: invariants.check_effects(counted, landed)),
            *(f"process {pid} is left" for pid in processes_in(self.stack.state / "workspaces" / run.hex)),
        ]


def _told(check: Callable[[], None]) -> list[str]:
    try:
        check()
    except AssertionError as error:
        return [str(error)]
    return []


def processes_in(workspace: Path) -> list[int]:
    """Return the processes that live in a run's workspace."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(workspace):
                found.append(process.pid)
    return found


def uuid_of(run_id: str) -> UUID:
    """Return the key of the run's row."""
    return parse_id("run", run_id)


@contextlib.contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """Start an installation for chaos, with its own PostgreSQL and Valkey."""
    seams = folder / "seams"
    seams.mkdir(parents=True)
    environ = {
        "OUTLIVE_AGENTS": "tests.chaos.agents",
        "OUTLIVE_FAILPOINTS": f"at:{seams}",
        "OUTLIVE_WORKERS": str(WORKERS),
        "OUTLIVE_SHELL_USER": pwd.getpwuid(os.geteuid()).pw_name,  # the commands of a shell write to folders of ours
        "OUTLIVE_LOOK_UP_SECONDS": str(LOOK_UP_SECONDS),
    }
    with live_stack(folder, **environ) as stack:
        site = Site(stack, seams)
        try:
            yield site
        finally:
            site.close()
