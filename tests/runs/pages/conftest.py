"""Signed-in browsers without a browser: Django's client for each person."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from runs.access import Actor


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
