"""What every test may rely on: coroutine tests, people in their tenants, and real PostgreSQL and Valkey.

Async tests need no plugin: each coroutine test runs through `async_to_sync`, so ORM calls inside it use the
test's own connection and are rolled back with it.
"""

import inspect
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings

from tests import builders


def pytest_configure() -> None:
    """Hash the passwords of test people cheaply: the real hash costs more than most tests."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


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
