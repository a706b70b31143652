"""The server under test, through its API alone: runs that do what a case says, and what is stored of them."""

import time
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx

ENDED = ("completed", "failed", "cancelled", "needs_reconciliation")
SECONDS = 120.0


@dataclass
class Server:
    """A server and a token that may do everything with runs."""

    base: str
    token: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {"Authorization": f"Bearer {self.token}"}
        self.http = httpx.Client(base_url=f"{self.base.rstrip('/')}/api/v1", headers=headers, timeout=SECONDS)

    def start(self, agent: str, **input: Any) -> str:
        """Start a run and return its id."""
        body = {"agent": agent, "input": {"key": f"k{uuid4().hex}", **input}}
        return str(self._post("/runs", body)["id"])

    def run(self, run_id: str) -> dict[str, Any]:
        """Read the run."""
        answer = self.http.get(f"/runs/{run_id}")
        answer.raise_for_status()
        return dict(answer.json())

    def until(self, run_id: str, *statuses: str) -> dict[str, Any]:
        """Wait until the run has one of these statuses; by default, until it has ended."""
        give_up_at = time.monotonic() + SECONDS
        while (run := self.run(run_id))["status"] not in (statuses or ENDED):
            assert time.monotonic() < give_up_at, f"{run_id} is still {run['status']}, not {statuses or ENDED}"
            time.sleep(0.02)
        return run

    def answer(self, run_id: str, value: Any) -> None:
        """Answer the run's open question."""
        question = self.until(run_id, "waiting")["waiting"]["question_ids"][0]
        self._post(f"/runs/{run_id}/answers/{question}", {"value": value})

    def stop(self, run_id: str) -> None:
        """Ask the run to stop."""
        self._post(f"/runs/{run_id}/cancel", {})

    def retry(self, run_id: str) -> None:
        """Make a new attempt that does everything anew."""
        self.until(run_id)
        self._post(f"/runs/{run_id}/attempts", {"reason": "the case says so", "reuse": "nothing"})

    def stored(self, run_id: str) -> list[dict[str, Any]]:
        """Read all events of the current attempt, page by page."""
        attempt, events = self.run(run_id)["attempt"], []
        while True:
            after = events[-1]["seq"] if events else 0
            answer = self.http.get(f"/runs/{run_id}/attempts/{attempt}/events", params={"after": after, "limit": 500})
            answer.raise_for_status()
            if not (data := answer.json()["data"]):
                return events
            events += data

    def close(self) -> None:
        """Close the connections that are kept."""
        self.http.close()

    def _post(self, path: str, body: Any) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.is_success, f"POST {path}: {answer.status_code} {answer.text[:500]}"
        return answer.json()
