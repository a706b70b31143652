"""Finding a Chromium, and opening pages in which an error of the console or of the policy fails the test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

PLACES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
expect.set_options(timeout=60_000)  # a loaded machine is slow, not wrong
HOW = "no Chromium found: `apt-get install chromium`, or set CHROMIUM to the path of one"


def find_chromium() -> str | None:
    """Find the system's Chromium, or the one that `playwright install chromium` put in place."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    for name in PLACES:
        if found := shutil.which(name):
            return found
    with sync_playwright() as playwright:
        own = playwright.chromium.executable_path
    return own if Path(own).exists() else None


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start Chromium; without one the test is skipped with the command to run, which CI=true makes a failure."""
    program = find_chromium()
    if program is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(HOW)
    with sync_playwright() as playwright:
        # As root Chromium refuses its sandbox; the pages here are our own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Visitor:
    """One person's browser window. `complaints` are what the console and the policy said; they must stay empty."""

    context: BrowserContext
    base_url: str
    complaints: list[str] = field(default_factory=list)
    expected: list[str] = field(default_factory=list)

    def open(self, path: str, *, wait: str = "load") -> Page:
        """Open a page in a new tab."""
        page = self.context.new_page()
        page.on("console", lambda message: self._note(message.type, message.text))
        page.on("pageerror", lambda error: self.complaints.append(f"page error: {error}"))
        page.goto(self.base_url + path, wait_until=wait)  # type: ignore[arg-type]
        return page

    def expect(self, text: str) -> None:
        """Let the console say this; the browser itself reports each failed request."""
        self.expected.append(text)

    def _note(self, kind: str, text: str) -> None:
        if kind in ("error", "warning") and not any(part in text for part in self.expected):
            self.complaints.append(f"{kind}: {text}")

    def close(self) -> None:
        """Close the window and fail the test for what the console said."""
        self.context.close()
        assert self.complaints == []


def new_visitor(browser: Browser, base_url: str, *, session: str | None = None, **options: Any) -> Visitor:
    """Open a browser window; `session` is the session key of who is signed in."""
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 800}, "locale": "en-GB"} | options))
    context.set_default_timeout(60_000)
    if session:
        context.add_cookies([{"name": "sessionid", "value": session, "url": base_url}])
    return Visitor(context, base_url)
