"""Access that ends while a stream is open: it closes within seconds and says why, over both transports."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.sessions.models import Session

from runs.access import Actor
from runs.ids import text_id
from runs.models import ControlConnection, Membership, Run
from runs.services import detach_control
from tests import builders
from tests.streaming.conftest import Site, token_of, wait_until, watching
from tests.streaming.test_api import events_path, sse
from tests.streaming.test_sockets import closed_with, cookie_of, opened, path_of
from tests.streaming.writing import deltas, emit

pytestmark = pytest.mark.django_db(transaction=True)

CODES = {"logout": 4501, "deactivation": 4501, "password": 4501, "membership": 4503, "role": 4503, "run": 4504}


class SocketStream:
    """What the tests below need of a WebSocket."""

    def __init__(self, watcher):
        self.watcher = watcher

    def caught_up(self):
        self.watcher.until("caught_up")

    def sees(self, seq):
        self.watcher.until_seq(seq)

    def closing_code(self):
        return closed_with(self.watcher)[0]


class SseStream:
    """The same of a server-sent stream."""

    def __init__(self, stream):
        self.stream = stream

    def caught_up(self):
        self.stream.until("caught_up")

    def sees(self, seq):
        while json.loads(self.stream.until("text.delta")["data"])["seq"] < seq:
            pass

    def closing_code(self):
        closing = json.loads(self.stream.until("closing")["data"])
        assert self.stream.rest() == [], "something came after the end"
        return closing["code"]


@contextmanager
def following(transport: str, site: Site, run: Run, actor: Actor) -> Iterator[SocketStream | SseStream]:
    """Follow a run as a page does: by the session's cookie."""
    cookie = cookie_of(actor)
    if transport == "websocket":
        with opened(site, path_of(run), Cookie=cookie, Origin=site.base) as watcher:
            yield SocketStream(watcher)
    else:
        with sse(site, events_path(run), None, Cookie=cookie) as stream:
            yield SseStream(stream)


def end_access(way: str, actor: Actor, run: Run) -> None:
    if way == "logout":
        Session.objects.all().delete()
    elif way == "deactivation":
        type(actor.user).objects.filter(pk=actor.user.pk).update(is_active=False)
    elif way == "password":
        actor.user.set_password("another long password")
        actor.user.save(update_fields=["password"])
    elif way == "membership":
        Membership.objects.filter(user=actor.user).delete()
    elif way == "role":  # none in this tenant any more, though one in another
        Membership.objects.filter(user=actor.user).update(tenant=builders.a_tenant("elsewhere"))
    else:
        run.delete()


@pytest.mark.parametrize("transport", ["websocket", "sse"])
@pytest.mark.parametrize("way", list(CODES))
def test_access_ends_while_the_stream_is_open(site: Site, owner: Actor, transport: str, way: str) -> None:
    run = builders.a_run(owner)
    with following(transport, site, run, owner) as stream:
        stream.caught_up()
        stream.sees(emit(run, *deltas(1)))
        end_access(way, owner, run)
        assert stream.closing_code() == CODES[way]


@pytest.mark.parametrize("transport", ["websocket", "sse"])
def test_what_one_person_loses_another_keeps(site: Site, owner: Actor, teammate: Actor, transport: str) -> None:
    run = builders.a_run(owner)
    with following(transport, site, run, owner) as mine, following(transport, site, run, teammate) as theirs:
        mine.caught_up()
        theirs.caught_up()
        end_access("membership", owner, run)
        assert mine.closing_code() == 4503
        theirs.sees(emit(run, *deltas(1)))


@pytest.mark.parametrize(("who", "role"), [("owner", "viewer"), ("operator", "runner")])
def test_who_may_no_longer_stop_the_run_no_longer_controls_it(
    site: Site, owner: Actor, operator: Actor, who: str, role: str
) -> None:
    """The connection is closed with a code that means "come back", and is a viewer then."""
    actor = {"owner": owner, "operator": operator}[who]
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=50.0)
    token = token_of(actor)
    with watching(site, run, token, role="control") as watcher:
        assert watcher.until("ready")["role"] == "control"
        watcher.until("caught_up")
        Membership.objects.filter(user=actor.user).update(role=role)
        assert closed_with(watcher) == (4013, "role_changed")
    wait_until(lambda: not ControlConnection.objects.filter(is_live=True).exists(), 10, "the detach")
    with watching(site, run, token, role="control") as watcher:
        assert watcher.until("ready")["role"] == "viewer"


def test_a_role_that_still_covers_it_keeps_its_connection(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=50.0)
    with watching(site, run, token_of(owner), role="control") as watcher:
        watcher.until("caught_up")
        Membership.objects.filter(user=owner.user).update(role="operator")
        other = builders.a_run(owner)
        with following("websocket", site, other, owner) as probe:  # one that does end shows that it was checked
            probe.caught_up()
            Session.objects.all().delete()
            assert probe.closing_code() == 4501
        watcher.until_seq(emit(run, *deltas(1)))
    detach_control(ControlConnection.objects.get().pk)


def test_the_feed_ends_with_the_membership(site: Site, owner: Actor) -> None:
    with opened(site, "/ws/v1/runs/", Cookie=cookie_of(owner), Origin=site.base) as watcher:
        watcher.until("ready")
        Membership.objects.all().delete()
        assert closed_with(watcher) == (4503, "forbidden")


def test_an_unknown_run_is_named_as_one(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner)
    name = text_id("run", run.pk)
    run.delete()
    with opened(site, f"/ws/v1/runs/{name}/", Authorization=f"Bearer {token_of(owner)}") as watcher:
        assert closed_with(watcher) == (4504, "unknown_run")
