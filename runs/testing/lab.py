"""The installation of one test: a person, a worker, a model, a target of effects, and what looks after them."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db import connection
from django.db.models import Q
from psycopg.conninfo import make_conninfo

from runs import failpoints, services
from runs.access import Actor
from runs.agents.registry import load_agents
from runs.creating import SHELL
from runs.database import conninfo
from runs.execution.names import worker_name
from runs.execution.worker_context import open_worker
from runs.ids import parse_id
from runs.models import Membership, Role, Run, Step, Tenant
from runs.states import CLAIMABLE, StepState
from runs.supervisor.lost_workers import worker_gone
from runs.supervisor.sweeps import sweep_once
from runs.supervisor.verification import verify_once
from runs.testing.model import ScriptedModel
from runs.testing.run import SECONDS, RunUnderTest, wait_for
from runs.testing.seams import Crash, Hold
from runs.testing.target import EffectTarget
from runs.testing.terminals import TerminalsHost
from runs.testing.worker import WorkerThread
from runs.tool_settings import tool_settings
from tools.models.protocol import ModelProvider

SUPERVISE_EVERY_SECONDS = 0.1


class Outlive:
    """What the fixture `outlive` gives: use it from ordinary (not async) tests.

    model: say what the model answers; target: see and spoil the effects; actor: the person who starts the runs.
    """

    def __init__(self, folder: Path, target: EffectTarget) -> None:
        self.model = ScriptedModel()
        self.target = target
        self.actor = _person()
        self._folder = folder
        self._runs: list[UUID] = []
        self._workers: list[WorkerThread] = []
        self._dead: list[WorkerThread] = []
        self._seams = contextlib.ExitStack()
        self._terminals = TerminalsHost()
        self._supervise_at = 0.0
        load_agents()
        self._start_worker()

    def start(self, agent: str, input: dict[str, Any] | None = None, **more: Any) -> RunUnderTest:
        """Start a run as a person does, and let the worker have it.

        Args: input: what the agent takes; more: title, deadline_seconds, on_disconnect, metadata, idempotency_key.
        Raises: as services.create_run.
        """
        run = self.put(agent, input, **more)
        self._tend(is_due=False)
        return run

    def put(self, agent: str, input: dict[str, Any] | None = None, **more: Any) -> RunUnderTest:
        """Start a run while every worker is down: nothing happens to it until the test waits for something."""
        return self.follow(services.create_run(actor=self.actor, agent=agent, input=input or {}, **more).run)

    def follow(self, run: Run) -> RunUnderTest:
        """Look after a run that was started by other means, over the API for instance."""
        self._runs.append(run.pk)
        return RunUnderTest(run.pk, self.actor, self._tend, lambda: self.target.effects)

    def run(self, agent: str, input: dict[str, Any] | None = None, **more: Any) -> RunUnderTest:
        """Start a run and carry it to its end, or to where it waits for a person."""
        return self.start(agent, input, **more).to_end()

    def until(self, fact: Callable[[], bool], *, seconds: float = SECONDS) -> None:
        """Let all runs go on until something is true. Raises: AssertionError after `seconds`."""
        wait_for(fact, "what the test waits for", tend=self._tend, seconds=seconds)

    def crash_at(self, name: str) -> Crash:
        """Let the worker of the next claim that comes to this place die there; another worker goes on.

        Args: name: one of runs.failpoints.NAMES, such as "after_dispatch_before_receipt".
        """
        crash = Crash(name, self._die_here)
        self._seams.enter_context(failpoints.armed(name, crash.hook))
        return crash

    @contextlib.contextmanager
    def hold_at(self, name: str) -> Iterator[Hold]:
        """Hold the claims that come to this place inside the block, and let them go on after it."""
        hold = Hold(name)
        with failpoints.armed(name, hold.hook):
            try:
                yield hold
            finally:
                hold.release()

    def close(self) -> None:
        """End all workers, the dead ones too."""
        self._seams.close()
        for worker in self._workers:
            worker.close()
        self._terminals.close()

    def _start_worker(self) -> None:
        name = worker_name()
        worker = WorkerThread(
            name,
            partial(
                open_worker,
                name=name,
                dsn=make_conninfo(conninfo(), application_name=_session_name(name)),
                redis_url=settings.REDIS_URL,
                env={},
                tool_settings=tool_settings(),
                workspaces=self._folder / "workspaces",
                terminals=self._terminals.folder,
                is_alone=True,  # it may carry what has killed two workers; the third death ends the run all the same
                die=lambda: None,  # the process of the test must live
                provider=self._provider,
            ),
        )
        worker.start()
        self._workers.append(worker)

    def _provider(self, model: str | None) -> ModelProvider:
        return self.model

    def _die_here(self) -> None:
        """Called in a worker's loop. The exit is reported by the test's own thread, as a parent process does it."""
        here = threading.current_thread().name
        worker = next(worker for worker in self._workers if worker.name == here)
        self._dead.append(worker)
        worker.freeze()

    def _tend(self, *, is_due: bool = True) -> None:
        while self._dead:
            name = self._dead.pop().name
            _end_sessions(name)
            worker_gone(name, {"signal": int(signal.SIGKILL), "seen_by": "the test"})
            for step in self.model.steps:
                if Step.objects.filter(pk=parse_id("step", step), state=StepState.OPEN).exists():
                    self.model.give_back(step)
            self._start_worker()
        now = time.monotonic()
        if is_due and now >= self._supervise_at:
            self._supervise_at = now + SUPERVISE_EVERY_SECONDS
            sweep_once()
            verify_once()
        ours = Q(pk__in=self._runs) | Q(root__in=self._runs)
        free = Run.objects.filter(ours, status__in=CLAIMABLE, lease_owner=None)
        for run_id, agent in free.values_list("pk", "agent"):
            if agent == SHELL:
                self._terminals.start()
            self._workers[-1].carry(run_id)


def _session_name(worker: str) -> str:
    return f"outlive {worker}"[-63:]  # PostgreSQL cuts longer names


def _end_sessions(worker: str) -> None:
    """What the kernel does to the sockets of a killed process: its transactions are rolled back."""
    with connection.cursor() as cursor:
        cursor.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
            [_session_name(worker)],
        )


def _person() -> Actor:
    tenant = Tenant.objects.create(slug="outlive-testing", name="Testing")
    user = get_user_model().objects.create_user("outlive-tester")
    Membership.objects.create(tenant=tenant, user=user, role=Role.OPERATOR)
    return Actor(user, tenant, Role.OPERATOR)
