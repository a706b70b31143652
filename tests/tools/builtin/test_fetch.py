"""The tool fetch_url, with its child process for HTML."""

from pathlib import Path

from tests.tools.builders import a_call, a_host, a_permit
from tests.tools.http_target import an_http_target, reply
from tools import Outcome
from tools.builtin import fetch_url

PAGE = b"<html><head><title>T &amp; t</title></head><body><script>x()</script><p>One  two<p>three</body></html>"
ALLOW = {"FETCH_ALLOW_PRIVATE": "127.0.0.0/8"}


async def test_html_becomes_title_and_lines(tmp_path: Path) -> None:
    async with a_host() as host, an_http_target(lambda _: reply(200, PAGE, content_type="text/html")) as target:
        call = a_call(workspace=tmp_path, processes=host, settings=ALLOW)
        receipt = await fetch_url.call(call, {"url": target.url})
    assert receipt.outcome is Outcome.SUCCEEDED, receipt
    assert isinstance(receipt.value, dict)
    assert (receipt.value["title"], receipt.value["text"]) == ("T & t", "One two\nthree")


async def test_other_answers_say_what_they_are() -> None:
    async with an_http_target(lambda _: reply(200, b"plain text", content_type="text/plain; charset=hex")) as target:
        receipt = await fetch_url.call(a_call(settings=ALLOW), {"url": target.url, "max_characters": 5})
        assert isinstance(receipt.value, dict)
        assert (receipt.value["text"], receipt.value["truncated"]) == ("plain", True)
        target.answer = lambda _: reply(200, b"\x89PNG", content_type="image/png")
        assert (await fetch_url.call(a_call(settings=ALLOW), {"url": target.url})).code == "not_text"
        target.answer = lambda _: reply(503)
        receipt = await fetch_url.call(a_call(settings=ALLOW), {"url": target.url})
        assert (receipt.code, receipt.retryable) == ("http_503", True)


async def test_without_the_setting_or_a_permit_nothing_is_asked() -> None:
    async with an_http_target(lambda _: reply(200)) as target:
        assert (await fetch_url.call(a_call(), {"url": target.url})).code == "address_refused"
        call = a_call(settings=ALLOW, permit=a_permit(seconds=0))
        assert (await fetch_url.call(call, {"url": target.url})).code == "permit_expired"
    assert target.requests == []
