"""Doorbells on raw connections: heard when the server is there, dropped when it is not."""

import asyncio

import redis
from django.conf import settings

from runs.execution.bells import RedisLine, listen


async def test_a_bell_is_heard_by_a_listener() -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    ear, line = listen(settings.REDIS_URL, b"t:exec", heard.put_nowait), RedisLine(settings.REDIS_URL)
    ear.start()
    line.start()
    await ear.up()
    await line.up()
    await _until_subscribed("t:exec")
    line.ring(b"t:exec", b"1 1 {\xff}")
    assert await asyncio.wait_for(heard.get(), 60) == b"1 1 {\xff}"
    await ear.close()
    await line.close()


async def test_a_line_comes_back_by_itself_with_its_subscription() -> None:
    heard: asyncio.Queue[bytes] = asyncio.Queue()
    ear = listen(settings.REDIS_URL, b"t:exec2", heard.put_nowait)
    ear.start()
    await ear.up()
    await _until_subscribed("t:exec2")
    client = redis.Redis.from_url(settings.REDIS_URL)
    ours = str(client.connection_pool.connection_kwargs.get("db", 0))  # other tests may share the server
    for entry in client.client_list(_type="pubsub"):
        if entry["db"] == ours:
            client.client_kill_filter(_id=entry["id"])
    await _until_subscribed("t:exec2")
    client.publish("t:exec2", b"again")
    assert await asyncio.wait_for(heard.get(), 60) == b"again"
    client.close()
    await ear.close()


async def test_without_a_server_a_bell_is_dropped_and_nothing_waits() -> None:
    line = RedisLine("unix:///nowhere/redis.sock")
    line.start()
    await asyncio.sleep(0)
    assert line.send(b"PUBLISH", b"t", b"x") is False
    line.ring(b"t", b"x")
    await line.close()


async def _until_subscribed(channel: str) -> None:
    client = redis.Redis.from_url(settings.REDIS_URL)
    async with asyncio.timeout(60):
        while client.pubsub_numsub(channel)[0][1] != 1:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)
    client.close()
