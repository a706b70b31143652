"""A web process of a test's own, and a window in which the demo user of an installation is signed in."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import Browser, expect

from tests.browser.chromium import Visitor, new_visitor
from tests.stack import ROOT, LiveStack, free_port, wait_until


@contextmanager
def web_process(folder: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Start a web process that finds its database in `environ`, and give its address."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "streaming.server", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "web.log").open("w+") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env={**environ, "OUTLIVE_BASE_URL": address}, stdout=log, stderr=log
        )

        def is_up() -> bool:
            assert process.poll() is None, Path(log.name).read_text()
            try:
                return httpx.get(f"{address}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        try:
            wait_until(is_up, seconds=180, what="the web process")
            yield address
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def signed_in(browser: Browser, stack: LiveStack) -> Iterator[Visitor]:
    """Open a window in which the demo user is signed in by the form."""
    visitor = new_visitor(browser, stack.base_url)
    page = visitor.open("/")
    page.get_by_label("User name").fill(stack.user)
    page.get_by_label("Password").fill(stack.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Runs")
    page.close()
    yield visitor
    visitor.close()
