"""A demo target for each test: in a thread with real sockets, or (test_main) as a process of its own."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tools.target.__main__ import open_target


@dataclass
class Target:
    """A running target and a client for it."""

    http: httpx.Client
    smtp_port: int

    def switch(self, **values: Any) -> None:
        """Set the switches; those not named are off."""
        assert self.http.put("/switches", json=values).status_code == 200

    def invoice(self, key: str, *, fence: int | None = None, amount_cents: int = 500) -> httpx.Response:
        """Ask for an invoice."""
        headers = {"Idempotency-Key": key} | ({} if fence is None else {"X-Outlive-Fence": str(fence)})
        return self.http.post("/invoices", json={"customer": "ACME", "amount_cents": amount_cents}, headers=headers)

    def count(self, key: str) -> int:
        """How many effects the key has."""
        return int(self.http.get(f"/operations/{key}").json()["count"])


def client_for(url: str) -> httpx.Client:
    """A client that believes in no proxy."""
    return httpx.Client(base_url=url, trust_env=False, timeout=60)


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    """A fresh target, listening on real ports in a thread of this process."""
    started: Future[tuple[str, int]] = Future()
    stop = asyncio.Event()
    runner = asyncio.Runner()

    async def serve() -> None:
        async with open_target(port=0, smtp_port=0, state=tmp_path / "target.jsonl") as listening:
            started.set_result(listening)
            await stop.wait()

    thread = threading.Thread(target=lambda: runner.run(serve()))
    thread.start()
    url, smtp_port = started.result(60)
    with client_for(url) as client:
        yield Target(client, smtp_port)
    runner.get_loop().call_soon_threadsafe(stop.set)
    thread.join(60)
    runner.close()
