"""The processor time that each part of the installation has taken, so that a row can say what a piece of work costs."""

import os
import time
from collections.abc import Iterable
from pathlib import Path

import psycopg
import redis

from tests.bench.bench import Bench

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Meter:
    """Reads the time of web, worker, supervisor, PostgreSQL, Redis and of us; not of a database elsewhere."""

    def __init__(self, bench: Bench) -> None:
        self._site = bench.site
        self._postmaster = _postmaster(bench.database_url)
        self._redis = redis.Redis.from_url(bench.redis_url)

    def seconds(self) -> dict[str, float]:
        """Give what each part has taken until now."""
        site = self._site
        found = {
            "web": _seconds([site.web_pid]),
            "worker": _seconds([site.workers_pid, *site.worker_pids()]),
            "supervisor": _seconds([site.supervisor_pid]),
        }
        if self._postmaster is not None:
            found["database"] = _seconds([self._postmaster, *_children(self._postmaster)])
        said = self._redis.info("cpu")
        found["redis"] = float(said["used_cpu_sys"]) + float(said["used_cpu_user"])
        return found | {"client": time.process_time()}

    def milliseconds_each(self, before: dict[str, float], times: int) -> dict[str, float]:
        """Give what one of `times` pieces of work took since `before`."""
        return {part: round((now - before[part]) * 1e3 / times, 2) for part, now in self.seconds().items()}


def _postmaster(database_url: str) -> int | None:
    with psycopg.connect(database_url) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None  # a function call gives one row
        try:
            return _stat(row[0])[1]
        except FileNotFoundError:  # on another machine, or in a container of its own
            return None


def _seconds(pids: Iterable[int]) -> float:
    """Sum what these processes and their children that have ended took."""
    ticks = 0
    for pid in pids:
        try:
            ticks += sum(_stat(pid)[11:15])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile: its parent has its time
    return ticks / TICKS_PER_SECOND


def _stat(pid: int) -> list[int]:
    """Read what follows the name in /proc/<pid>/stat: [1] is the parent, from [11] on come the times."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [0, *map(int, fields[1:15])]


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
