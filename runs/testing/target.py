"""A target of effects that misbehaves on demand: the demo target (tools/target) in a thread, with real sockets."""

import asyncio
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import httpx

from tools.target.__main__ import open_target

START_SECONDS = 10.0


class EffectTarget:
    """A running target. `settings`: the environment in which create_invoice and send_mail find it."""

    def __init__(self, folder: Path) -> None:
        self._state = folder / "target.jsonl"
        self._listening: Future[tuple[str, int]] = Future()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="effect target", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self.url, smtp_port = self._listening.result(START_SECONDS)
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=10)
        self.settings = {
            "TARGET_URL": self.url,
            "MAIL_LOOKUP_URL": self.url,
            "SMTP_HOST": "127.0.0.1",
            "SMTP_PORT": str(smtp_port),
            "SMTP_FROM": "outlive@test.invalid",
        }
        return self

    def __exit__(self, *exc: object) -> None:
        self.http.close()
        assert self._loop is not None  # set before the target listens
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    def behave(self, **switches: Any) -> None:
        """Set how it behaves from now on; without arguments it is well again.

        Args: delay_seconds, drop_after_commit, never_answer, fail_after_effect, refuse, lookup_fails; times: for so
        many requests; key_prefix: for these keys (see tools.target.switches).
        """
        answer = self.http.put("/switches", json=switches)
        assert answer.status_code == 200, answer.text

    @property
    def effects(self) -> dict[str, int]:
        """How often each operation key took effect. 2 is what must never happen."""
        counts: dict[str, int] = {}
        for row in self.http.get("/effects").json()["effects"]:
            counts[row["key"]] = counts.get(row["key"], 0) + 1
        return counts

    def count(self, key: str) -> int:
        """How often this operation key took effect."""
        return self.effects.get(key, 0)

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        try:
            async with open_target(port=0, smtp_port=0, state=self._state) as listening:
                self._listening.set_result(listening)
                await self._stop.wait()
        except BaseException as error:
            if self._listening.done():
                raise
            self._listening.set_exception(error)
