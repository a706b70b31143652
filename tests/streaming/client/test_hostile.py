"""Servers and proxies that answer nonsense: a reader ends with a StreamError, never with another one or in a circle."""

import asyncio

import pytest

from streaming.client import AsyncClient, Client, StreamError
from streaming.client.answers import read_page
from streaming.client.line import Transport
from tests.streaming.hostile import EMPTY, JSON, Hostile, answer

DEEP = b"[" * 100_000
SSE = "Content-Type: text/event-stream"


ANSWERS: dict[str, tuple[Transport, bytes]] = {
    "a socket sent to a page for signing in": ("websocket", answer("302 F", b"", "Location: https://sso.example/in")),
    "a socket sent to no address": ("websocket", answer("302 F", b"", "Location: http://[")),
    "a socket sent in a circle": ("websocket", answer("302 F", b"", "Location: /ws/v1/runs/run_x/")),
    "no HTTP": ("websocket", b"\x00\xff" * 50),
    "a stream sent elsewhere": ("sse", answer("302 F", b"", "Location: http://[")),
    "a stream of nesting": ("sse", answer("200 OK", b"data: " + DEEP + b"\n\n", SSE)),
    "a stream in a broken encoding": ("sse", answer("200 OK", b"data: x", SSE, "Content-Encoding: gzip")),
    "come back in 10^400 s": ("sse", answer("429 Too Many", b"", "Retry-After: 1" + "0" * 400)),
    "a page of nesting": ("pages", answer("200 OK", DEEP, JSON)),
    "a refusal of nesting": ("pages", answer("404 Not Found", DEEP, JSON)),
    "a page without events": ("pages", answer("200 OK", EMPTY.replace(b"[]", b"null"), JSON)),
    "gone, and the view as well": ("pages", answer("410 Gone", b"{}", JSON)),
}
each_answer = pytest.mark.parametrize("name", ANSWERS)


@each_answer
def test_a_reader_ends_with_an_error_of_ours(hostile: Hostile, name: str) -> None:
    transport, hostile.bytes = ANSWERS[name]
    with (
        Client(hostile.base, "t") as client,
        client.follow("run_x", transport=transport, give_up_seconds=0.3) as following,
        pytest.raises(StreamError),
    ):
        next(following)


@each_answer
def test_an_asynchronous_reader_ends_with_an_error_of_ours(hostile: Hostile, name: str) -> None:
    transport, hostile.bytes = ANSWERS[name]

    async def read() -> None:
        async with (
            AsyncClient(hostile.base, "t") as client,
            client.follow("run_x", transport=transport, give_up_seconds=0.3) as following,
        ):
            await anext(following)

    with pytest.raises(StreamError):
        asyncio.run(read())


def test_empty_pages_that_come_at_once_are_not_asked_for_in_a_circle(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a pause behind it; at the third the reader is stopped."""
    hostile.bytes = answer("200 OK", EMPTY, JSON)
    pauses: list[float] = []

    def note(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("streaming.client.synchronous.time.sleep", note)
    with Client(hostile.base, "t") as client, pytest.raises(KeyboardInterrupt):
        next(client.follow("run_x", transport="pages"))
    assert [hostile.asked.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]
    assert min(pauses) > 0


def test_a_page_with_news_is_followed_by_the_next_at_once() -> None:
    page = read_page(EMPTY.replace(b"[]", b'[{"seq":1}]'), is_tail=False)
    assert page.pause_seconds(0.0) == 0.0
    empty = read_page(EMPTY, is_tail=False)
    assert (empty.pause_seconds(0.25), empty.pause_seconds(20.0)) == (0.75, 0.0)
