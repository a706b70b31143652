"""Fetching against a real server: pinning, rebinding, redirects, bombs."""

import gzip
from collections.abc import Callable

import pytest

from tests.tools.http_target import HANG_UP, Request, an_http_target, reply
from tools.builtin.addresses import AddressPolicy, AddressRefused
from tools.builtin.fetching import BODY_BYTES, MOST_REDIRECTS, Resolver, fetch_page
from tools.errors import ToolError

LOCAL = AddressPolicy.from_setting("127.0.0.1")


def names(table: dict[str, list[list[str]]]) -> Resolver:
    """Return a resolver that gives each name its next answer, and the last one for ever."""

    async def resolve(host: str, port: int) -> list[str]:
        answers = table[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return resolve


async def test_connection_goes_to_the_checked_address_under_the_right_name() -> None:
    async with an_http_target(lambda _: reply(200, b"<p>hi", content_type="Text/HTML; charset=latin-1")) as target:
        url = f"http://shop.example:{target.port}/a?b=c"
        page = await fetch_page(url, policy=LOCAL, resolver=names({"shop.example": [["127.0.0.1"]]}))
    assert (page.url, page.status, page.content_type, page.charset) == (url, 200, "text/html", "latin-1")
    assert page.body == b"<p>hi"
    (request,) = target.requests
    assert (request.path, request.headers["host"]) == ("/a?b=c", f"shop.example:{target.port}")


async def test_name_is_resolved_once_for_each_request_so_rebinding_finds_no_gap() -> None:
    """The second answer points at a private address: it would be used if anybody asked again between check and use."""
    async with an_http_target(lambda _: reply(200, b"x")) as target:
        table = {"evil.example": [["127.0.0.1"], ["10.0.0.1"]]}
        await fetch_page(f"http://evil.example:{target.port}/", policy=LOCAL, resolver=names(table))
        with pytest.raises(AddressRefused):
            await fetch_page(f"http://evil.example:{target.port}/", policy=LOCAL, resolver=names(table))
    assert len(target.requests) == 1


@pytest.mark.parametrize(
    "location", ["http://inside.example/", "//inside.example/x", "http://[::1]/", "http://169.254.169.254/"]
)
async def test_redirect_to_a_private_address_is_refused(location: str) -> None:
    async with an_http_target(lambda _: reply(302, b"", location=location)) as target:
        table = {
            "shop.example": [["127.0.0.1"]],
            "inside.example": [["10.0.0.1"]],
            "::1": [["::1"]],
            "169.254.169.254": [["169.254.169.254"]],
        }
        with pytest.raises(AddressRefused):
            await fetch_page(f"http://shop.example:{target.port}/", policy=LOCAL, resolver=names(table))
    assert len(target.requests) == 1


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a/", "http://user:pw@shop.example/", "http:///x"])
async def test_redirect_to_something_else_than_the_web_is_refused(location: str) -> None:
    async with an_http_target(lambda _: reply(302, b"", location=location)) as target:
        with pytest.raises(ToolError):
            await fetch_page(
                f"http://shop.example:{target.port}/",
                policy=LOCAL,
                resolver=names({"shop.example": [["127.0.0.1"]]}),
            )


async def test_redirects_are_followed_and_counted() -> None:
    def answer(request: Request) -> bytes:
        step = int(request.path[1:])
        return reply(200, b"end") if step == MOST_REDIRECTS else reply(302, b"", location=f"/{step + 1}")

    async with an_http_target(answer) as target:
        page = await fetch_page(f"{target.url}/0", policy=LOCAL)
        assert page.url == f"{target.url}/{MOST_REDIRECTS}"
        target.answer = lambda _: reply(302, b"", location="/0")
        with pytest.raises(ToolError, match="redirects more than"):
            await fetch_page(f"{target.url}/0", policy=LOCAL)
    assert len(target.requests) == 2 * (MOST_REDIRECTS + 1)


@pytest.mark.parametrize(
    "url", ["http://localhost:{}/", "http://127.1:{}/", "http://0x7f000001:{}/", "http://2130706433:{}/"]
)
async def test_every_spelling_of_loopback_is_refused(url: str) -> None:
    async with an_http_target(lambda _: reply(200)) as target:
        with pytest.raises(AddressRefused):
            await fetch_page(url.format(target.port), policy=AddressPolicy())
    assert target.requests == []


async def test_body_is_bounded_also_when_it_is_a_gzip_bomb() -> None:
    bomb = gzip.compress(b"\0" * (50 * BODY_BYTES))
    answers: list[Callable[[Request], bytes]] = [
        lambda _: reply(200, b"x" * (BODY_BYTES + 1)),
        lambda _: reply(200, bomb, content_encoding="gzip"),
    ]
    for answer in answers:
        async with an_http_target(answer) as target:
            page = await fetch_page(target.url, policy=LOCAL)
        assert (len(page.body), page.truncated) == (BODY_BYTES, True)
    async with an_http_target(lambda _: reply(200, gzip.compress(b"text"), content_encoding="gzip")) as target:
        assert (await fetch_page(target.url, policy=LOCAL)).body == b"text"


async def test_broken_answers_are_errors_of_the_tool() -> None:
    for answer in (
        HANG_UP,
        b"no http\r\n\r\n",
        reply(200, b"x", content_encoding="gzip"),
        reply(200, b"", content_encoding="br"),
    ):
        async with an_http_target(lambda _, answer=answer: answer) as target:  # type: ignore[misc]
            with pytest.raises(ToolError):
                await fetch_page(target.url, policy=LOCAL)
