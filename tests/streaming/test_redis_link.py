"""The pub/sub connection: addresses, and messages of a real Redis."""

import asyncio
from typing import Any

import pytest
import redis
from django.conf import settings

from streaming.redis_link import Messages, RedisLink, read_url, write_command


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://127.0.0.1:6380/2", {"host": "127.0.0.1", "port": 6380, "path": None, "password": None}),
        ("redis://", {"host": "localhost", "port": 6379}),
        ("rediss://u:p%40ss@h/0", {"host": "h", "is_tls": True, "user": "u", "password": "p@ss"}),
        ("unix:///run/redis.sock?db=3", {"path": "/run/redis.sock", "user": None}),
        ("unix://:secret@/run/redis.sock?db=3", {"path": "/run/redis.sock", "password": "secret"}),
    ],
)
def test_urls_are_read_as_redis_py_reads_them(url: str, expected: dict[str, Any]) -> None:
    address = read_url(url)
    assert {name: getattr(address, name) for name in expected} == expected


def test_another_kind_of_url_is_refused() -> None:
    with pytest.raises(ValueError, match="REDIS_URL"):
        read_url("http://localhost")


def test_commands_are_length_prefixed() -> None:
    assert write_command(b"PING", b"a\r\nb") == b"*2\r\n$4\r\nPING\r\n$4\r\na\r\nb\r\n"


class Heard:
    """A link with everything that it tells."""

    def __init__(self) -> None:
        self.messages: Messages = []
        self.subscribed: list[bytes] = []
        self.lost = asyncio.Event()
        self.changed = asyncio.Event()

    async def connect(self) -> RedisLink:
        return await RedisLink.connect(read_url(settings.REDIS_URL), self.take, self.confirm, self.lost.set)

    def take(self, messages: Messages) -> None:
        self.messages += messages
        self.changed.set()

    def confirm(self, channel: bytes) -> None:
        self.subscribed.append(channel)
        self.changed.set()

    async def until(self, is_true: Any) -> None:
        async with asyncio.timeout(60):
            while not is_true():
                self.changed.clear()
                await self.changed.wait()


async def test_messages_of_subscribed_channels_arrive_in_order_until_unsubscribed() -> None:
    heard = Heard()
    link = await heard.connect()
    link.subscribe([b"r:test-a", b"r:test-b"])
    await heard.until(lambda: len(heard.subscribed) == 2)
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        client.publish("r:test-a", b"\x00\xff 1")
        client.publish("r:test-other", b"no")
        client.publish("r:test-b", b"x" * 100_000)
        await heard.until(lambda: len(heard.messages) == 2)
        assert heard.messages == [(b"r:test-a", b"\x00\xff 1"), (b"r:test-b", b"x" * 100_000)]
        link.unsubscribe(b"r:test-b")
        link.ping()
        while client.publish("r:test-b", b"late"):  # noqa: ASYNC110 - Redis tells nobody when it has forgotten one
            await asyncio.sleep(0.01)
    link.close()
    await asyncio.wait_for(heard.lost.wait(), 60)


async def test_a_connection_that_does_not_answer_is_given_up() -> None:
    silent = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    heard = Heard()
    link = await RedisLink.connect(read_url(f"redis://127.0.0.1:{port}"), heard.take, heard.confirm, heard.lost.set)
    link.ping()
    assert not heard.lost.is_set()
    link.ping()
    await asyncio.wait_for(heard.lost.wait(), 60)
    silent.close()
    await silent.wait_closed()


async def test_nobody_there_is_an_oserror() -> None:
    with pytest.raises(OSError, match=r"."):
        await RedisLink.connect(read_url("unix:///nowhere/redis.sock"), lambda _: None, lambda _: None, lambda: None)
