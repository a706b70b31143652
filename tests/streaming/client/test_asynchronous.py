"""The asyncio client against a real server: every transport, refusals, and a cancellation that closes in order."""

import asyncio
import threading
from typing import Any

import pytest
from django.db import connection

from runs.access import Actor
from runs.ids import text_id
from runs.models import Run
from streaming.client import AsyncClient, Event, Gap, NotSignedIn, Snapshot, StreamLost, UnknownRun
from streaming.client.line import Transport
from tests import builders
from tests.streaming.conftest import Site, free_port, token_of
from tests.streaming.writing import deltas, emit, end, stored

pytestmark = pytest.mark.django_db(transaction=True)
each_transport = pytest.mark.parametrize("transport", ["websocket", "sse", "pages", "auto"])


@pytest.fixture
def run(owner: Actor) -> Run:
    run = builders.a_run(owner)
    emit(run, *deltas(200))
    return run


async def read(site: Site, token: str, run: Run, after: str | None, transport: Transport, most: int = 10**6) -> Any:
    items: list[Any] = []
    async with AsyncClient(site.base, token) as client:
        async with client.follow(text_id("run", run.pk), after, transport=transport) as following:
            async for item in following:
                items.append(item)
                if len(items) >= most:
                    break
    return items, following.cursor


@each_transport
def test_a_run_is_read_to_its_end(site: Site, run: Run, owner: Actor, transport: Transport) -> None:
    token = token_of(owner)

    def write() -> None:
        try:
            for i in range(20):
                emit(run, *deltas(2, start=i))
            end(run)
        finally:
            connection.close()

    writer = threading.Thread(target=write)
    writer.start()
    items, cursor = asyncio.run(read(site, token, run, None, transport))
    writer.join(30)
    assert [item.seq for item in items] == stored(run)
    assert cursor == f"{text_id('st', run.stream_id)}:{stored(run)[-1]}"


@each_transport
def test_a_gap_and_a_snapshot_come_as_values(site: Site, run: Run, owner: Actor, transport: Transport) -> None:
    end(run)
    items, _ = asyncio.run(read(site, token_of(owner), run, "st_" + "9" * 32 + ":5", transport))
    assert [type(item) for item in items] == [Gap, Snapshot]
    assert items[0].reason == "other_stream"
    assert items[1].view["status"] == "cancelled"


@each_transport
def test_refusals_and_silence_are_kept_apart(
    site: Site, run: Run, owner: Actor, outsider: Actor, transport: Transport
) -> None:
    with pytest.raises(NotSignedIn):
        asyncio.run(read(site, "outlive_wrong", run, None, transport))
    with pytest.raises(UnknownRun):
        asyncio.run(read(site, token_of(outsider), run, None, transport))

    async def nobody_there() -> None:
        async with AsyncClient(f"http://127.0.0.1:{free_port()}", "t") as client:
            await anext(client.follow("run_1", transport=transport, give_up_seconds=0.2))

    with pytest.raises(StreamLost):
        asyncio.run(nobody_there())


@each_transport
def test_a_break_and_a_cancellation_close_the_connection(
    site: Site, run: Run, owner: Actor, transport: Transport
) -> None:
    items, cursor = asyncio.run(read(site, token_of(owner), run, None, transport, most=5))
    assert [item.seq for item in items] == [1, 2, 3, 4, 5]
    assert cursor == f"{text_id('st', run.stream_id)}:4"
    token = token_of(owner)

    async def cancelled() -> list[int]:
        seen: list[int] = []
        is_all_read = asyncio.Event()

        async def follow() -> None:
            async with AsyncClient(site.base, token) as client:
                async for item in client.follow(text_id("run", run.pk), transport=transport):
                    assert isinstance(item, Event)
                    seen.append(item.seq)
                    if item.seq == 201:
                        is_all_read.set()

        task = asyncio.create_task(follow())
        await asyncio.wait_for(is_all_read.wait(), 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    assert asyncio.run(cancelled()) == list(range(1, 202))
    assert "Traceback" not in site.log()
