"""Everything that one worker process shares among its runs: database, writer, lease keeper, hands, doorbells."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from runs.database import Database
from runs.decisions.core import Bell, Effect
from runs.execution.bells import RedisLine, listen
from runs.execution.claim import Hands
from runs.execution.lease import LeaseKeeper
from runs.execution.writer import EventWriter, connect_by
from runs.ringing import ring_now
from tools.models.choose import default_model, provider_for
from tools.models.protocol import ModelProvider
from tools.processes.host import ProcessHost

POOL_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One worker, in one event loop."""

    hands: Hands
    writer: EventWriter
    keeper: LeaseKeeper


@contextlib.asynccontextmanager
async def open_worker(
    *,
    name: str,
    dsn: str,
    redis_url: str,
    env: Mapping[str, str],
    tool_settings: Mapping[str, str],
    workspaces: Path,
    die: Callable[[], None] | None = None,
) -> AsyncIterator[WorkerContext]:
    """Open what runs need, for the length of a block. Leaving it kills what still runs.

    Args: name: of `runs.execution.names`; dsn, redis_url: where; env: for model providers; tool_settings: what
    tools may know; die: ends this process when its loop is stuck; tests pass their own.
    """
    proofs = workspaces / ".proofs"
    proofs.mkdir(parents=True, exist_ok=True)
    line = RedisLine(redis_url)
    async with (
        _closing(line),
        Database.open(ring=_ringer(line), max_size=POOL_CONNECTIONS, dsn=dsn) as database,
    ):
        processes = ProcessHost(proof_dir=proofs)
        writer = EventWriter(connect_by(dsn), line.ring)
        extra = {} if die is None else {"die": die}
        keeper = LeaseKeeper(conninfo=dsn, worker=name, processes=processes, **extra)

        def take_bell(payload: bytes) -> None:
            with contextlib.suppress(ValueError):  # not ours to judge: a bell is a hint
                if (held := keeper.find(UUID(hex=payload.decode()))) is not None:
                    held.should_look.set()

        hands = Hands(
            worker=name,
            database=database,
            processes=processes,
            workspaces=workspaces,
            settings=dict(tool_settings),
            provider=_provider(env),
            draining=asyncio.Event(),
            leaving=asyncio.Event(),
        )
        writer.start()
        keeper.start()
        try:
            async with _closing(listen(redis_url, b"w:" + name.encode(), take_bell)):
                yield WorkerContext(hands, writer, keeper)
        finally:
            await keeper.close()
            await writer.close()
            await processes.close()


@contextlib.asynccontextmanager
async def _closing(line: RedisLine) -> AsyncIterator[None]:
    line.start()
    try:
        yield
    finally:
        await line.close()


def _provider(env: Mapping[str, str]) -> Callable[[str | None], ModelProvider]:
    return lambda model: provider_for(model or default_model(env), env)


def _ringer(line: RedisLine) -> Callable[[Sequence[Effect]], None]:
    """Ring bells on the raw line; asking the queue goes through RQ's blocking client, in a thread."""

    def ring(effects: Sequence[Effect]) -> None:
        wishes: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Bell):
                line.ring(effect.channel, effect.payload)
            else:
                wishes.append(effect)
        if wishes:
            asyncio.get_running_loop().run_in_executor(None, ring_now, wishes)

    return ring
