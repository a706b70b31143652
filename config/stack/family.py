"""All children together: start in order, restart what dies, stop in the reverse order, leave nothing."""

import signal
import time
from collections import deque

from config.stack.bell import Bell
from config.stack.children import Child, ChildSpec
from config.stack.console import say
from config.stack.errors import StackError
from config.stack.logs import LogWatch, keep_bounded, last_line
from config.stack.state import StateFolder
from config.stack.takeover import end_marked

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 15.0
STEADY_SECONDS = 30.0  # a child that ran this long starts again with the first back-off
LOOK_SECONDS = 0.25
LINES_PER_WINDOW = 5
WINDOW_SECONDS = 10.0


class Restarts:
    """When a child may start again: 0.5 s after the first death, twice as long after each quick one."""

    def __init__(self) -> None:
        self.due_at: float | None = None
        self._backoff = FIRST_BACKOFF_SECONDS

    def note_death(self, *, ran_seconds: float, now: float) -> float:
        """Plan the next start. Returns the seconds until then."""
        if ran_seconds >= STEADY_SECONDS:
            self._backoff = FIRST_BACKOFF_SECONDS
        wait = self._backoff
        self._backoff = min(self._backoff * 2, LONGEST_BACKOFF_SECONDS)
        self.due_at = now + wait
        return wait


class Quota:
    """At most so many lines per window, so that a failing child cannot flood the terminal."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    def allows(self, now: float) -> bool:
        while self._times and now - self._times[0] > WINDOW_SECONDS:
            self._times.popleft()
        if len(self._times) >= LINES_PER_WINDOW:
            return False
        self._times.append(now)
        return True


class Family:
    """The running children, in the order in which they were started."""

    def __init__(self, state: StateFolder, bell: Bell) -> None:
        self._state = state
        self._bell = bell
        self._members: list[tuple[Child, Restarts, LogWatch, Quota]] = []

    def start(self, spec: ChildSpec) -> Child:
        """Start a child and keep it. It is stopped by `stop_all` even when it never gets ready."""
        child = Child(spec, self._state)
        self._members.append((child, Restarts(), LogWatch(child.log, spec.problem), Quota()))
        child.start()
        return child

    def require_all_running(self) -> None:
        """Raise StackError when one of them has ended: at the start a crash is an error, later a restart."""
        for child, *_ in self._members:
            child.require_running()

    def watch_until_stop(self) -> None:
        """Restart what dies and show what it said, until a stop signal comes."""
        while not self._bell.is_stop_requested:
            self.look_once(time.monotonic())
            self._bell.wait(LOOK_SECONDS)

    def look_once(self, now: float) -> None:
        """Go through the children once."""
        for child, restarts, watch, quota in self._members:
            name = child.spec.name
            keep_bounded(child.log)
            for line in watch.new_problems():
                if quota.allows(now):
                    say(f"[{name}] {line}")
            ended = child.exit_text()
            if ended and restarts.due_at is None:
                wait = restarts.note_death(ran_seconds=now - child.started_at, now=now)
                say(f"[{name}] ended ({ended}), starts again in {wait:.1f} s: {last_line(child.log)}")
            if restarts.due_at is not None and now >= restarts.due_at:
                restarts.due_at = None
                try:
                    child.start()
                except (StackError, OSError) as error:
                    restarts.note_death(ran_seconds=0.0, now=now)
                    say(f"[{name}] cannot start: {error}")

    def stop_all(self, *, quiet: bool = False) -> None:
        """Stop the children, the last started first; then whatever they left behind."""
        for child, *_ in reversed(self._members):
            started = time.monotonic()
            left_by_itself = child.stop(self._bell)
            if not quiet:
                how = "stopped" if left_by_itself else "killed"
                say(f"  {child.spec.name:<28} {how} after {time.monotonic() - started:.1f} s")
        self._members.clear()
        end_marked(self._state, first=signal.SIGKILL, within_seconds=0.0)
