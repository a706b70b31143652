"""A deterministic model for tests, benchmarks and demos: it says what its script says (tools.models.script)."""

import asyncio
import json
import mmap
import os
import re
import struct
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path

from tools.models.protocol import (
    Finished,
    ModelError,
    ModelRequest,
    StreamItem,
    TextDelta,
    ToolUse,
    ToolUseDelta,
    Usage,
)
from tools.models.script import Script, read_script
from tools.models.waiting import pause
from tools.scope import Scope

BREATH = 50  # deltas between two turns of the event loop at full speed
HOLD_POLL_SECONDS = 0.005
_WORDS = re.compile(r"\S+\s*|\s+")


class Probe:
    """The 32-byte file $BENCH_TOK/<key>: start, time of the last delta, how many, pid of a child (four doubles).

    It is where a benchmark reads the model's real progress without asking the application server.
    """

    def __init__(self, folder: Path, key: str) -> None:
        descriptor = os.open(folder / key, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            os.ftruncate(descriptor, 32)
            self._memory = mmap.mmap(descriptor, 32)
        finally:
            os.close(descriptor)
        self._count = 0
        struct.pack_into("dddd", self._memory, 0, time.time(), 0.0, 0.0, 0.0)

    def note_delta(self) -> float:
        """Record one more delta now; return that time.time()."""
        now = time.time()
        self._count += 1
        struct.pack_into("dd", self._memory, 8, now, self._count)
        return now

    def close(self) -> None:
        """Unmap the file; what was written stays."""
        self._memory.close()


class ScriptedProvider:
    """Streams a script. It has no socket: closing the generator or cancelling the scope just ends it.

    At full speed it yields without awaiting, except for one turn of the loop every BREATH deltas, where it also
    looks at the scope. With a rate each delta has an absolute time, so a slow consumer is not made slower.
    """

    name = "scripted"
    supports_tools = True

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._folder = Path(env["BENCH_TOK"]) if env.get("BENCH_TOK") else None

    async def stream(self, request: ModelRequest, *, scope: Scope) -> AsyncGenerator[StreamItem]:
        """Yield the deltas, the tool uses, the usage and Finished of this turn's script.

        Raises: ModelError with the script's "error", or bad_request when the script itself is wrong.
        """
        scope.raise_if_cancelled()
        script, turn = read_script(request, self._env)
        probe = Probe(self._folder, script.key) if script.key and self._folder else None
        written = 0
        try:
            async for delta in self._deltas(script, probe, scope):
                written += 1
                yield delta
        finally:
            if probe:
                probe.close()
        if script.error:
            raise ModelError(script.error, f"The script says: {script.error}.")
        for index, call in enumerate(script.tool_calls):
            use = ToolUse(id=call.id or f"call_{turn}_{index}", name=call.name, arguments=call.arguments)
            yield ToolUseDelta(use)
        yield Usage(sum(len(m.content.split()) for m in request.messages), written)
        reason = "tool_call" if script.tool_calls else script.stop_reason
        run, step = request.metadata.get("run_id", "run"), request.metadata.get("step_id", "step")
        yield Finished(reason, f"scripted-{run}-{step}-{turn}", self.name, "scripted")

    async def _deltas(self, script: Script, probe: Probe | None, scope: Scope) -> AsyncIterator[TextDelta]:
        words = _WORDS.findall(script.text) if script.text is not None else None
        tail = f',"p":{json.dumps("x" * script.pad)}}}' if script.pad else "}"
        started, clock = time.perf_counter(), time.time
        for index in range(script.token_count if words is None else len(words)):
            if index == script.hold_at:
                await self._hold(script, scope)
            if script.rate:
                delay = started + index / script.rate - time.perf_counter()
                if delay > 0:
                    await pause(scope, delay)
            if index % BREATH == BREATH - 1:
                await asyncio.sleep(0)
                scope.raise_if_cancelled()
            now = probe.note_delta() if probe else clock()
            if words is None:
                yield TextDelta(f'{{"i":{index},"t":{now!r}{tail}', now)
            else:
                yield TextDelta(words[index], now)

    async def _hold(self, script: Script, scope: Scope) -> None:
        """Wait until a test creates $BENCH_TOK/<key>.release; without a folder or key there is nothing to wait for."""
        if self._folder is None or script.key is None:
            raise ModelError("bad_request", '"hold_at" needs a "key" and the environment variable BENCH_TOK.')
        release = self._folder / f"{script.key}.release"
        while not release.exists():
            await pause(scope, HOLD_POLL_SECONDS)
