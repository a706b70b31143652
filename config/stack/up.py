"""`make up`: everything that a newcomer needs, in one process tree that ends with Ctrl-C."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from config.stack.bell import Bell
from config.stack.children import ChildSpec
from config.stack.chores import run_chore
from config.stack.console import say, step
from config.stack.errors import StackError, StopRequested
from config.stack.family import Family
from config.stack.ports import require_free
from config.stack.programs import Addresses, child_specs, choose_addresses, keep_demo, prepare_argv, program_environ
from config.stack.services import start_services
from config.stack.state import CHECKOUT, StateFolder, StateLock, create_folder, state_root
from config.stack.takeover import end_leftovers

STOP_GRACE_SECONDS = 30.0
EXAMPLE = '{"agent": "chat", "input": {"prompt": "Say hello."}, "stream": true}'


@dataclass(frozen=True)
class Plan:
    """What runs on top of the services. Tests put small programs in the place of ours."""

    prepare: Callable[[], list[str]] = prepare_argv
    children: Callable[[Mapping[str, str], StateFolder, Addresses], list[ChildSpec]] = child_specs


def run_up(environ: Mapping[str, str], *, port: int, plan: Plan | None = None) -> int:
    """Start everything, keep it running until a signal comes, stop everything. Returns the exit code.

    Raises StackError: a taken port and a second `up` before anything was started, others after a clean stop.
    """
    plan = plan or Plan()
    state = create_folder(state_root(environ))
    lock = StateLock(state)
    lock.take()
    try:
        for name in end_leftovers(state):
            say(f"  ended what an earlier start left behind: {name}")
        require_free(port)
        return _run(environ, port, plan, state)
    finally:
        lock.release()


def _run(environ: Mapping[str, str], port: int, plan: Plan, state: StateFolder) -> int:
    bell = Bell()
    family = Family(state, bell)
    try:
        _start(environ, port, plan, state, bell, family)
        family.watch_until_stop()
    except StopRequested:
        pass
    finally:
        say("\nStopping. (Ctrl-C again: at once.)")
        started = time.monotonic()
        family.stop_all()
        say(f"Stopped after {time.monotonic() - started:.1f} s. The data is kept in {state.root}")
        bell.close()
    return 0


def _start(environ: Mapping[str, str], port: int, plan: Plan, state: StateFolder, bell: Bell, family: Family) -> None:
    started = time.monotonic()
    say("Starting Outlive")
    addresses = choose_addresses(port)
    environ = program_environ(start_services(family, bell, state, environ), state, addresses)
    with step("tables, pages, demo user"):
        said = run_chore("prepare", plan.prepare(), state=state, bell=bell, environ=environ, cwd=CHECKOUT)
        try:
            demo = keep_demo(state, said, addresses)
        except ValueError as error:
            raise StackError(f"prepare answered no JSON: {said.strip()[-200:]}") from error
    children = [family.start(spec) for spec in plan.children(environ, state, addresses)]
    for child in children:
        with step(child.spec.name):
            child.await_ready(bell)
    family.require_all_running()
    _greet(demo, addresses, time.monotonic() - started, state)


def _greet(demo: Mapping[str, str | None], addresses: Addresses, seconds: float, state: StateFolder) -> None:
    base = addresses.base_url
    say(f"\nOutlive is ready after {seconds:.1f} s:  {base}")
    if demo:
        password = demo.get("password") or "(set earlier; new one: .venv/bin/python manage.py changepassword)"
        say(f"  login     {demo.get('user')} / {password}")
    if demo.get("token"):
        say(f"  try       curl -sSN {base}/api/v1/runs -H 'Authorization: Bearer {demo['token']}' \\")
        say(f"                 -H 'Content-Type: application/json' -d '{EXAMPLE}'")
    say(f"  target    {addresses.target_url}  (the demo target: what runs did outside, and how it answers)")
    say(f"  logs      {state.logs}\n  stop      Ctrl-C, or make down\n")


def run_down(environ: Mapping[str, str]) -> int:
    """Stop the stack of this checkout, or what a killed one left. Returns 0 also when nothing runs."""
    root = state_root(environ)
    if not root.exists():
        say("Outlive is not running.")
        return 0
    state = create_folder(root)
    lock = StateLock(state)
    if not lock.try_take():
        _stop_holder(lock)
    try:
        left = end_leftovers(state)
        say("Ended what was left: " + ", ".join(left) if left else "Outlive is stopped.")
    finally:
        lock.release()
    return 0


def _stop_holder(lock: StateLock) -> None:
    """Ask the running stack to stop and take its lock. Raises StackError when it keeps it."""
    holder = lock.holder()
    if holder:
        say(f"Stopping process {holder.pid} ...")
        holder.send(holder.stop_signal)
    give_up_at = time.monotonic() + STOP_GRACE_SECONDS
    while not lock.try_take():
        if time.monotonic() > give_up_at:
            who = f"process {holder.pid}" if holder else "the other process"
            raise StackError(f"Outlive did not stop within {STOP_GRACE_SECONDS:.0f} s. Kill {who} and run this again.")
        time.sleep(0.1)
