"""Reading a run's events over SSE until its end, over any number of cuts (runs/reading), for the terminal."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from runs.cli.api import ANSWER_SECONDS, CONNECT_SECONDS, ApiClient, problem_of
from runs.cli.plain_text import safe_line
from runs.cli.problems import Refused, Unreachable
from runs.cli.slim_httpx import httpx, httpx_sse
from runs.reading.errors import Cut, StreamLost, StreamRefused
from runs.reading.items import Frame
from runs.reading.loop import Frames, OnCut, read_on
from runs.reading.machine import DONE, SILENCE_SECONDS, Reading, read_message


@dataclass(slots=True)
class RunStream:
    """The events of a run from a cursor on. `sleep` and `clock` are a test's."""

    client: ApiClient
    run_id: str
    reading: Reading = field(default_factory=Reading)
    on_cut: OnCut = lambda reason, wait_seconds: None
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def frames(self) -> Iterator[Frame]:
        """Yield each frame once, in order, until the run has ended; control frames too, a snapshot always in one.

        Raises: Refused (no such run, no right), Unreachable (no contact for too long).
        """
        try:
            for item in read_on(self.reading, self._connect, on_cut=self.on_cut, sleep=self.sleep, clock=self.clock):
                yield item.frame
        except StreamRefused as error:
            reason = safe_line(error.reason)
            raise Refused(403, "stream_closed", f"The server closed the stream for good: {reason}.", None) from None
        except StreamLost as error:
            raise Unreachable(
                f"No contact for {error.seconds:.0f} s ({safe_line(error.reason)}). The run goes on at the server: "
                + follow_command(self.run_id, error.cursor)
            ) from None

    def _connect(self) -> Frames:
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.reading.cursor is not None:
            headers["Last-Event-ID"] = self.reading.cursor
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS, read=SILENCE_SECONDS)
        path = f"/runs/{self.run_id}/events"
        try:
            with self.client.http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if response.status_code == 204:  # at the head of a stream that has ended
                    yield {"type": "closing", "code": DONE, "reason": "ended"}
                    return
                if not response.is_success:
                    response.read()
                    raise problem_of(response)
                for event in httpx_sse.EventSource(response).iter_sse():
                    if event.data:
                        yield from read_message(event.data)
        except httpx.InvalidURL:
            raise Unreachable(
                "The server named a run by what is no id. Is the address right?", code="no_outlive"
            ) from None
        except (httpx.TransportError, httpx.DecodingError, httpx_sse.SSEError) as error:
            raise Cut(str(error) or type(error).__name__) from error
        except Unreachable as problem:
            raise Cut(problem.message) from problem


def follow_command(run_id: str, cursor: str | None = None) -> str:
    """Say how to come back."""
    return f"outlive run follow {run_id}" + (f" --after {cursor}" if cursor else "")
