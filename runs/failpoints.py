"""Named seams where a test may kill, stop or delay this process; without a test they cost one truth test.

    before_model                    a model step is about to ask for its permit
    after_model_before_dispatch     the model has answered, its step is stored, the next permit was not asked for
    before_dispatch                 a tool step is about to ask for its permit
    after_dispatch_before_receipt   the permit is here, the call has not begun
    after_receipt_before_commit     the target has answered, nothing of it is stored
    after_commit_before_bell        events are stored, nobody was told
    lease_held                      the run is claimed and its lease is being renewed
    before_end                      the agent has returned (or failed), its end is not written
    before_settle                   a cancelled run is about to be ended
    after_input_check               input of a shell may go in, it was not passed on yet

Real processes: OUTLIVE_FAILPOINTS="before_model=kill,lease_held=wait:/some/file". `kill` and `stop` send this process
SIGKILL and SIGSTOP; `wait:FILE` makes FILE.reached and goes on once FILE exists. OUTLIVE_FAILPOINTS="at:/some/folder"
arms while processes run: the first pass of a seam anywhere takes the file /some/folder/<name>, which holds the action.
In-process tests use `armed`, people who test their agents `outlive.crash_at` (runs/testing).
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

type Hook = Callable[[], Awaitable[None]]

NAMES = frozenset(
    {
        "before_model",
        "after_model_before_dispatch",
        "before_dispatch",
        "after_dispatch_before_receipt",
        "after_receipt_before_commit",
        "after_commit_before_bell",
        "lease_held",
        "before_end",
        "before_settle",
        "after_input_check",
    }
)
_POLL_SECONDS = 0.005
_hooks: dict[str, Hook] = {}


async def hit(name: str) -> None:
    """Pass the seam `name`; does nothing unless a test armed it."""
    if _hooks and (hook := _hooks.get(name)) is not None:
        await hook()


@contextlib.contextmanager
def armed(name: str, hook: Hook) -> Iterator[None]:
    """Await `hook()` at each pass of the seam `name` inside the block."""
    _check(name)
    _hooks[name] = hook
    try:
        yield
    finally:
        _hooks.pop(name, None)


def arm_from_environment(env: Mapping[str, str]) -> None:
    """Arm what OUTLIVE_FAILPOINTS says. Raises: ValueError naming the part that is wrong."""
    for part in filter(None, env.get("OUTLIVE_FAILPOINTS", "").split(",")):
        if part.startswith("at:"):
            _hooks.update({name: _hook_at(Path(part.removeprefix("at:")) / name) for name in NAMES})
            continue
        name, _, action = part.partition("=")
        _check(name)
        _hooks[name] = _hook_of(part, action)


def _check(name: str) -> None:
    if name not in NAMES:
        raise ValueError(f"There is no failpoint {name!r}. Known: {', '.join(sorted(NAMES))}")


def _hook_of(part: str, action: str) -> Hook:
    word, _, file = action.partition(":")
    if word == "wait" and file:
        return lambda: _wait_for(Path(file))
    if word in ("kill", "stop") and not file:
        number = signal.SIGKILL if word == "kill" else signal.SIGSTOP
        return lambda: _send(number)
    raise ValueError(f"Failpoint {part!r} must be name=kill, name=stop or name=wait:FILE")


def _hook_at(file: Path) -> Hook:
    taken = file.with_name(f"{file.name}.taken")

    async def hook() -> None:
        try:
            file.rename(taken)  # noqa: ASYNC240 - one of all processes gets it
        except FileNotFoundError:
            return
        action = taken.read_text()
        await _hook_of(f"{file.name}={action}", action)()

    return hook


async def _send(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)


async def _wait_for(file: Path) -> None:
    file.with_name(file.name + ".reached").touch()
    while not file.exists():  # noqa: ASYNC110, ASYNC240 - the signal is a file, made by another process
        await asyncio.sleep(_POLL_SECONDS)
