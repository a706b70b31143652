"""A web process on the test database, and a real Chromium. The test itself plays the worker."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import translation
from playwright.sync_api import Browser

from runs.access import Actor
from tests.browser.chromium import Visitor, new_visitor, running_browser
from tests.browser.serving import signed_in, web_process
from tests.stack import LiveStack, live_stack

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
    environ = os.environ | {
        "DATABASE_URL": database, "OUTLIVE_SECRET_KEY": settings.SECRET_KEY, "OUTLIVE_ACCESS_CHECK_SECONDS": "0.5",
    }  # fmt: skip
    with web_process(tmp_path_factory.mktemp("web"), environ) as address:
        yield address


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its language active in the thread; no test may see that of another."""
    with translation.override("en"):
        yield


@pytest.fixture(autouse=True)
def tables_are_emptied_first(transactional_db: None) -> None:
    """Let the web process give way where it and the emptying of the tables after a test wait for each other.

    A page that closes at the end of its test is still being written down then; whose patience ends first loses.
    """
    with connection.cursor() as cursor:
        cursor.execute("set deadlock_timeout = '1min'")


@pytest.fixture(scope="package")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """The installation: what `make up` starts, with data of its own; one for all tests of this folder."""
    with live_stack(tmp_path_factory.mktemp("outlive")) as running:
        yield running


@pytest.fixture
def newcomer(browser: Browser, stack: LiveStack) -> Iterator[Visitor]:
    """A window in which the demo user is signed in by the form."""
    with signed_in(browser, stack) as visitor:
        yield visitor


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
