"""The tool fetch_url: a page of the public web as text."""

from typing import Annotated

from pydantic import Field

from tools.builtin.addresses import SETTING, AddressPolicy
from tools.builtin.fetching import Page, fetch_page
from tools.builtin.html_text import extract_text
from tools.call import ToolCall
from tools.effects import JSON, Effect
from tools.errors import ToolError
from tools.processes.blocking import call_blocking
from tools.retry import Retry
from tools.scope import Scope, boottime
from tools.tool import tool

_HTML = ("text/html", "application/xhtml+xml")
_TEXT = ("application/json", "application/xml", "application/javascript", "application/x-ndjson")


@tool(effect=Effect.READ, timeout_seconds=45, retry=Retry(tries=3))
async def fetch_url(
    call: ToolCall,
    url: Annotated[str, Field(min_length=1, max_length=4096, description="An http or https address.")],
    max_characters: Annotated[int, Field(ge=1, le=200_000)] = 20_000,
) -> dict[str, JSON]:
    """Fetch a web page and return its title and readable text. Only public addresses can be reached."""
    policy = AddressPolicy.from_setting(call.settings.get(SETTING, ""))
    call.open()
    page = await fetch_page(url, policy=policy)
    if page.status >= 400:
        raise ToolError(
            f"{page.url} answered {page.status}.", code=f"http_{page.status}", retryable=page.status in (429, 503)
        )
    title, text = await _readable(call, page)
    return {
        "url": page.url,
        "status": page.status,
        "content_type": page.content_type,
        "title": title,
        "text": text[:max_characters],
        "truncated": page.truncated or len(text) > max_characters,
    }


async def _readable(call: ToolCall, page: Page) -> tuple[str, str]:
    kind = page.content_type
    if kind and not kind.startswith("text/") and kind not in (*_HTML, *_TEXT) and not kind.endswith(("+json", "+xml")):
        raise ToolError(f"{page.url} is {kind}, which cannot be read as text.", code="not_text")
    text = _decode(page)
    if kind not in _HTML:
        return "", text
    # Two megabytes of nested tags take seconds to parse: not in the loop, and where it can be killed.
    found = await call_blocking(
        call.processes,
        extract_text,
        {"html": text},
        key=call.process_key,
        cwd=call.workspace,
        settings=call.settings,
        scope=Scope(deadline=boottime() + min(call.remaining(), 3600.0)),
    )
    assert isinstance(found, dict)  # extract_text says so
    return str(found["title"]), str(found["text"])


def _decode(page: Page) -> str:
    try:
        return page.body.decode(page.charset, errors="replace")
    except (LookupError, ValueError):  # a made-up charset, or one that is no text encoding
        return page.body.decode(errors="replace")
