"""Clients of people at the operators' desk."""

from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from django.utils import translation

from runs.access import Actor
from runs.models import Tenant
from tests.builders import an_actor


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its language active in the thread; no test may see that of another."""
    with translation.override("en"):
        yield


@pytest.fixture
def desk() -> Callable[[Actor], Client]:
    """Give a client of a person who is staff."""

    def sit_down(actor: Actor) -> Client:
        actor.user.is_staff = True
        actor.user.save(update_fields=["is_staff"])
        client = Client()
        client.force_login(actor.user)
        return client

    return sit_down


@pytest.fixture
def as_operator(operator: Actor, desk: Callable[[Actor], Client]) -> Client:
    """The operator's client."""
    return desk(operator)


@pytest.fixture
def as_admin(tenant: Tenant, desk: Callable[[Actor], Client]) -> Client:
    """The client of the tenant's admin."""
    return desk(an_actor("boss", tenant, "admin"))


@pytest.fixture
def as_root(tenant: Tenant) -> Client:
    """The client of a superuser who belongs to no tenant."""
    from django.contrib.auth import get_user_model

    client = Client()
    client.force_login(get_user_model().objects.create_superuser("root", password="a long password 1"))
    return client
