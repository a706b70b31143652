"""Everything that one worker process shares among its runs: database, writer, lease keeper, hands, doorbells."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from runs.clock import ASK, clock
from runs.database import Database
from runs.decisions.core import Advance, Bell, Effect
from runs.execution.bells import RedisLine, listen
from runs.execution.claim import Hands
from runs.execution.lease import LeaseKeeper
from runs.execution.overdue import looking_after
from runs.execution.writer import EventWriter, connect_by
from runs.ringing import ring_now
from tools.models.choose import default_model, provider_for
from tools.models.protocol import ModelProvider
from tools.processes.host import ProcessHost
from tools.processes.terminals.owned import Terminals
from tools.scope import boottime

POOL_CONNECTIONS = 8


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """One worker, in one event loop."""

    hands: Hands
    writer: EventWriter
    keeper: LeaseKeeper
    is_alone: bool = False  # this process carries one run and ends


@contextlib.asynccontextmanager
async def open_worker(
    *,
    name: str,
    dsn: str,
    redis_url: str,
    env: Mapping[str, str],
    tool_settings: Mapping[str, str],
    workspaces: Path,
    proofs: Path | None = None,
    user: tuple[int, int] | None = None,
    terminals: Path | None = None,
    is_alone: bool = False,
    die: Callable[[], None] | None = None,
    provider: Callable[[str | None], ModelProvider] | None = None,
) -> AsyncIterator[WorkerContext]:
    """Open what runs need, for the length of a block. Leaving it kills what still runs.

    Args: name: of `runs.execution.names`; dsn, redis_url: where; env: for model providers; tool_settings: what
    tools may know; workspaces: the folder of all; proofs: of wards, default below it; user: uid and gid of who commands
    run as, None = who we are; terminals: where the host of terminals listens, None = there is none; is_alone: it
    carries one run and nothing beside it; die: ends this process when its loop is stuck; provider: gives a model by its
    name, default by `env`. Tests pass their own of both.
    """
    proofs = proofs or workspaces / ".proofs"
    proofs.mkdir(parents=True, exist_ok=True)
    line = RedisLine(redis_url)
    async with (
        _closing(line),
        Database.open(ring=_ringer(line), max_size=POOL_CONNECTIONS, dsn=dsn) as database,
    ):
        asked_at = boottime()
        clock.learn((await database.fetch(ASK, {}))[0]["now"], asked_at=asked_at)
        processes = ProcessHost(proof_dir=proofs)
        writer = EventWriter(connect_by(dsn), line.ring)
        extra = {} if die is None else {"die": die}
        shells = None if terminals is None else Terminals(folder=terminals, proof_dir=proofs)
        keeper = LeaseKeeper(conninfo=dsn, worker=name, processes=processes, terminals=shells, **extra)

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
            provider=provider or _provider(env),
            draining=asyncio.Event(),
            leaving=asyncio.Event(),
            terminals=shells,
            user=user,
        )
        writer.start()
        keeper.start()
        try:
            async with (
                _closing(listen(redis_url, b"w:" + name.encode(), take_bell)),
                looking_after(database, keeper),
            ):
                yield WorkerContext(hands, writer, keeper, is_alone)
        finally:
            await keeper.close()
            await writer.close()
            if shells is not None:
                shells.close()
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
            elif isinstance(effect, Advance):
                wishes.append(effect)
        if wishes:
            asyncio.get_running_loop().run_in_executor(None, ring_now, wishes)

    return ring
