"""Signed-in browsers without a browser: Django's client for each person."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from runs.access import Actor


@pytest.fixture(autouse=True)
def english() -> Iterator[None]:
    """A request leaves its language active in the thread; no test may see that of another."""
    with translation.override("en"):
        yield


@pytest.fixture
def signed_in() -> Callable[[Actor], Client]:
    """Give a client that is signed in as an actor."""

    def sign_in(actor: Actor) -> Client:
        client = Client()
        client.force_login(actor.user)
        return client

    return sign_in


@pytest.fixture
def as_owner(owner: Actor, signed_in: Any) -> Client:
    """The owner's client."""
    client: Client = signed_in(owner)
    return client
