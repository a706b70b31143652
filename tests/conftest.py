"""What every test may rely on: coroutine tests, people in their tenants, and real PostgreSQL and Valkey.

Async tests need no plugin: each coroutine test runs through `async_to_sync`, so ORM calls inside it use the
test's own connection and are rolled back with it.
"""

import inspect
import os
from collections.abc import Generator
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from _pytest._code.code import ExceptionRepr
from asgiref.sync import async_to_sync
from django.conf import settings
from hypothesis import HealthCheck
from hypothesis import settings as drawing

from tests import builders
from tests.stack import LiveStack

# A loaded machine draws slowly and runs slowly; neither says anything about what is tested. The same drawings each
# time, so that a run says something about the change; OUTLIVE_EXAMPLES draws new ones.
drawing.register_profile(
    "outlive", deadline=None, suppress_health_check=[HealthCheck.too_slow],
    derandomize="OUTLIVE_EXAMPLES" not in os.environ,
)  # fmt: skip
drawing.load_profile("outlive")


def pytest_configure() -> None:
    """Hash the passwords of test people cheaply: the real hash costs more than most tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to the failure of a test that used an installation what its programs said last."""
    report = yield
    given = getattr(item, "funcargs", {})
    stack = given.get("stack") or getattr(given.get("site"), "stack", None)
    if report.failed and isinstance(stack, LiveStack) and isinstance(report.longrepr, ExceptionRepr):
        for name, lines in stack.last_lines():
            report.longrepr.addsection(f"the last of {name}.log", lines)
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in names}
    async_to_sync(pyfuncitem.obj)(**arguments)
    return True


@pytest.fixture
def database_url(transactional_db: None) -> str:
    """The test database as a subprocess takes it; it is emptied afterwards."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path="/" + settings.DATABASES["default"]["NAME"]))


@pytest.fixture
def tenant(db: None) -> Any:
    """The tenant of owner and teammate."""
    return builders.a_tenant("acme")


@pytest.fixture
def owner(tenant: Any) -> Any:
    """A runner of the tenant: the actor who starts runs."""
    return builders.an_actor("owner", tenant, "runner")


@pytest.fixture
def teammate(tenant: Any) -> Any:
    """Another runner of the same tenant."""
    return builders.an_actor("teammate", tenant, "runner")


@pytest.fixture
def operator(tenant: Any) -> Any:
    """An operator of the same tenant."""
    return builders.an_actor("operator", tenant, "operator")


@pytest.fixture
def viewer(tenant: Any) -> Any:
    """Somebody of the tenant who may only look."""
    return builders.an_actor("viewer", tenant, "viewer")


@pytest.fixture
def outsider(db: None) -> Any:
    """An admin of another tenant."""
    return builders.an_actor("outsider", builders.a_tenant("umbrella"), "admin")
