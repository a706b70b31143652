"""A small storm; `make storm` is 500 clients for a minute."""

import asyncio

import pytest
from django.conf import settings

from tests.bench.site import prepare, running_site
from tests.chaos.redis_proxy import redis_proxy
from tests.chaos.storm import Storm, rage

SMALL = Storm(clients=45, runs=3, seconds=8.0, stay_seconds=(0.3, 3.0))


@pytest.mark.timeout(240)
def test_whoever_comes_and_goes_has_the_stored_list_although_doorbells_are_lost_doubled_and_swapped(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("OUTLIVE_SECRET_KEY", settings.SECRET_KEY)
    with redis_proxy(settings.REDIS_URL) as proxy, running_site(prepare(), REDIS_URL=proxy.url) as site:
        outcome = asyncio.run(rage(site, SMALL, database_url, proxy.done))
    assert (outcome.unequal, outcome.problems) == (0, [])
    assert outcome.connections > SMALL.clients  # they did come and go
    assert all(outcome.doorbells.get(name) for name in ("lost", "doubled", "swapped", "passed"))
