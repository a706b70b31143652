"""Starting, following and stopping runs of the agent `probe`, as the rows need it."""

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from tests.bench.client import Address, Http, Subscription, subscribe, upgrade
from tests.bench.log import Log
from tests.bench.probe import ProbeFile
from tests.bench.site import Site

API = "/api/v1/runs"
TERMINAL = ("run.completed", "run.cancelled", "run.failed")
END_SECONDS = 60.0


@dataclass(frozen=True)
class Run:
    """A run that was created."""

    id: str
    stream_id: str
    probe: ProbeFile

    def path(self, **query: Any) -> str:
        """Give the address of its socket."""
        asked = "&".join(f"{name}={value}" for name, value in query.items())
        return f"/ws/v1/runs/{self.id}/?{asked}"


class Client:
    """One person at work: an address with a token, and a keep-alive connection for calls."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.address = Address(site.base, {"Authorization": f"Bearer {site.token}"})
        self.http = Http(self.address)

    def body(self, **script: Any) -> tuple[dict[str, Any], ProbeFile]:
        """Write what creates a run of the agent `probe`, and where its progress stands."""
        key = uuid.uuid4().hex[:16]
        return {"agent": "probe", "input": {"key": key, **script}}, ProbeFile(self.site.probes, key)

    async def create(self, **script: Any) -> Run:
        """Create a run."""
        body, probe = self.body(**script)
        answer = await self.http.call("POST", API, body)
        return Run(answer["id"], answer["stream_id"], probe)

    async def cancel(self, run: Run) -> Any:
        """Ask it to stop."""
        return await self.http.call("POST", f"{API}/{run.id}/cancel", {})

    async def get(self, run: Run) -> Any:
        """Read it."""
        return await self.http.call("GET", f"{API}/{run.id}")

    async def floor(self) -> None:
        """Commit one row (tests/bench/urls.py)."""
        await self.http.call("POST", "/bench/floor", {"text": "one row"})

    async def follow(self, run: Run, log: Log, **query: Any) -> Subscription:
        """Open a socket on the run's events."""
        return await subscribe(self.address, upgrade(self.address, run.path(**query)), log.take)

    @contextlib.asynccontextmanager
    async def following(self, run: Run, log: Log, **query: Any) -> AsyncIterator[Subscription]:
        """Follow a run for the length of a block."""
        made = await self.follow(run, log, **query)
        try:
            yield made
        finally:
            made.cut()


async def ended(*followers: Subscription, seconds: float = END_SECONDS) -> None:
    """Wait until the server has closed these streams. Raises: TimeoutError."""
    async with asyncio.timeout(seconds):
        await asyncio.gather(*(follower.closed for follower in followers))
