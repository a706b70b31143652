"""The handler: an open stream holds neither a thread nor a database connection."""

from pathlib import Path

import pytest

from runs.access import Actor
from runs.ids import text_id
from tests import builders
from tests.streaming.conftest import Site, call, token_of, wait_until
from tests.streaming.test_server import open_raw

pytestmark = pytest.mark.django_db(transaction=True)


def threads_of(site: Site) -> int:
    return len(list(Path(f"/proc/{site.process.pid}/task").iterdir()))


def test_many_open_streams_leave_room_for_requests(site: Site, owner: Actor) -> None:
    """Django's own handler kept a thread and one of 16 pooled connections for each open stream."""
    run = builders.a_run(owner)
    token = token_of(owner)
    path = f"/api/v1/runs/{text_id('run', run.pk)}/events"
    streams = [open_raw(site, path, token, upgrade=False) for _ in range(60)]
    try:
        for stream in streams:
            stream.settimeout(20)
            wait_until(lambda stream=stream: b"caught_up" in stream.recv(65_536), 20, "every stream")
        assert call(site, "GET", "/api/v1/runs", token).status == 200
        assert call(site, "POST", "/api/v1/runs", token, {"agent": "chat", "input": {"prompt": "x"}}).status == 201
        assert threads_of(site) < 40
    finally:
        for stream in streams:
            stream.close()
