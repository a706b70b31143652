"""A web process on the test database, and a real Chromium. The test itself plays the worker."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import translation
from playwright.sync_api import Browser

from runs.access import Actor
from tests.browser.chromium import Visitor, new_visitor, running_browser
from tests.stack import ROOT, LiveStack, free_port, live_stack, wait_until

# Playwright's own loop runs in this thread, and Django takes any running loop for async code.
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here, and give each test a database that the web process can see."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.django_db(transaction=True))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for the session."""
    with running_browser() as running:
        yield running


@pytest.fixture(scope="session")
def web(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a web process that serves the test database."""
    with django_db_blocker.unblock():
        name = connection.settings_dict["NAME"]
    database = urlunsplit(urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}"))
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    environ = os.environ | {
        "DATABASE_URL": database, "OUTLIVE_BASE_URL": address, "OUTLIVE_SECRET_KEY": settings.SECRET_KEY,
    }  # fmt: skip
    log = (tmp_path_factory.mktemp("web") / "web.log").open("w+")
    command = [sys.executable, "-m", "streaming.server", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=log, stderr=log)

    def is_up() -> bool:
        assert process.poll() is None, Path(log.name).read_text()
        try:
            return httpx.get(f"{address}/healthz").status_code == 200
        except httpx.TransportError:
            return False

    try:
        wait_until(is_up, seconds=60, what="the web process")
        yield address
    finally:
        process.terminate()
        process.wait(30)
        log.close()


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its language active in the thread; no test may see that of another."""
    with translation.override("en"):
        yield


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The whole installation, as `make up` starts it."""
    with live_stack(tmp_path_factory.mktemp("outlive")) as running:
        yield running


type SignIn = Callable[..., Visitor]


@pytest.fixture
def visit(transactional_db: None, browser: Browser, web: str) -> Iterator[SignIn]:
    """Open a window for an actor: `visit(owner, viewport=…)`. What its console says at the end fails the test."""
    with ExitStack() as opened:

        def open_window(actor: Actor, **options: Any) -> Visitor:
            client = Client()
            client.force_login(actor.user)
            session = client.cookies[settings.SESSION_COOKIE_NAME].value
            visitor = new_visitor(browser, web, session=session, **options)
            opened.callback(visitor.close)
            return visitor

        yield open_window
