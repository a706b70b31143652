"""What the doctor asks: how a request arrived, the limits in force, a test stream that nothing may hold back."""

import json
from datetime import UTC, datetime

import pytest

from runs.access import Actor
from runs.conf import limits
from tests.streaming.conftest import Site, call, token_of
from tests.streaming.test_api import sse

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("path", ["/api/v1/diagnostics", "/api/v1/diagnostics/stream"])
def test_strangers_learn_nothing(site: Site, path: str) -> None:
    assert call(site, "GET", path, "outlive_wrong").status == 401


def test_it_says_how_the_request_arrived_and_what_is_in_force(site: Site, owner: Actor) -> None:
    body = call(site, "GET", "/api/v1/diagnostics", token_of(owner), Origin="http://elsewhere.example").json()
    assert body["arrived"]["host"] == site.base.removeprefix("http://")
    assert (body["arrived"]["is_https"], body["arrived"]["is_origin_accepted"]) == (False, False)
    in_force = {row["name"]: (row["value"], row["default"]) for row in body["limits"]}
    assert in_force["access_check_seconds"] == (0.3, 5.0)  # as this server was started
    assert in_force["lease_seconds"][0] == limits().lease_seconds
    drift = datetime.now(UTC) - datetime.fromisoformat(body["server_time"])
    assert abs(drift.total_seconds()) < 30


def test_without_an_origin_nothing_is_said_about_it(site: Site, owner: Actor) -> None:
    body = call(site, "GET", "/api/v1/diagnostics", token_of(owner)).json()
    assert body["arrived"]["is_origin_accepted"] is None
    body = call(site, "GET", "/api/v1/diagnostics", token_of(owner), Origin=site.base).json()
    assert body["arrived"]["is_origin_accepted"] is True


def test_the_test_stream_is_sent_as_those_of_runs_are(site: Site, owner: Actor) -> None:
    with sse(site, "/api/v1/diagnostics/stream?beats=3&every=0.2", token_of(owner)) as stream:
        assert stream.answer.headers["Content-Type"] == "text/event-stream"
        assert stream.answer.headers["Cache-Control"] == "no-cache, no-transform"
        assert stream.answer.headers["X-Accel-Buffering"] == "no"
        came = [json.loads(event["data"]) for event in stream.rest()]
    assert [beat["n"] for beat in came] == [0, 1, 2]
    sent = [datetime.fromisoformat(beat["server_time"]) for beat in came]
    assert (sent[2] - sent[0]).total_seconds() >= 0.4


@pytest.mark.parametrize("query", ["beats=41", "beats=0", "every=0", "every=16", "every=nan"])
def test_it_is_bounded(site: Site, owner: Actor, query: str) -> None:
    assert call(site, "GET", f"/api/v1/diagnostics/stream?{query}", token_of(owner)).status == 400
