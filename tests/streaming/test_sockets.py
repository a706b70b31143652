"""The sockets: who gets in, who is closed, control connections, the feed."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from runs.access import Actor
from runs.ids import text_id
from runs.models import ApiToken, ControlConnection, Run
from runs.services import detach_control
from tests import builders
from tests.streaming.conftest import Site, Watcher, token_of, wait_until, watching
from tests.streaming.writing import deltas, emit, end

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(owner: Actor) -> Run:
    return builders.a_run(owner)


def cookie_of(actor: Actor) -> str:
    client = Client()
    client.force_login(actor.user)
    return f"sessionid={client.cookies['sessionid'].value}"


@contextmanager
def opened(site: Site, path: str, **headers: str) -> Iterator[Watcher]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = site.base.replace("http", "ws") + path
    with connect(url, additional_headers=sent, compression=None, subprotocols=["app.v1"]) as socket:
        yield Watcher(socket)


def path_of(run: Run, query: str = "") -> str:
    return f"/ws/v1/runs/{text_id('run', run.pk)}/{query}"


def closed_with(watcher: Watcher) -> tuple[int, str]:
    """Give the close code and the reason that was announced before it."""
    code = watcher.close_code()
    closing = watcher.controls[-1]
    assert closing["type"] == "closing"
    assert closing["code"] == code
    return code, closing["reason"]


def test_a_page_of_ours_gets_in_with_its_cookie(site: Site, run: Run, owner: Actor) -> None:
    with opened(site, path_of(run), Cookie=cookie_of(owner), Origin=site.base) as watcher:
        assert watcher.until("ready")["role"] == "viewer"
        assert watcher.socket.subprotocol == "app.v1"
        watcher.until("caught_up")
        assert watcher.seqs == [1]


@pytest.mark.parametrize("odd", ["a[b]=1", 'look={"dark":true}', "expires=1", '"', "=;"])
def test_cookies_of_other_programs_on_the_host_keep_nobody_out(site: Site, run: Run, owner: Actor, odd: str) -> None:
    """http.cookies gives up at the first of these; the page was signed in, its sockets were not, for ever."""
    for cookie in (f"{odd}; {cookie_of(owner)}", f"{cookie_of(owner)}; {odd}"):
        with opened(site, path_of(run), Cookie=cookie, Origin=site.base) as watcher:
            assert watcher.until("ready")["role"] == "viewer"


def test_a_cookie_that_no_session_can_have_is_nobody(site: Site, run: Run) -> None:
    """U+0000 made it `database_away`: come back in two seconds, for ever."""
    with opened(site, path_of(run), Cookie='sessionid="aaaaaaaaaaaaaaaa\\000"', Origin=site.base) as watcher:
        assert closed_with(watcher) == (4501, "not_signed_in")


@pytest.mark.parametrize("path", ["/ws/", "/ws/v1/nothing/", "/ws/v1/runs/x/y/", "/ws/v1/runs"])
def test_at_an_address_of_no_socket_the_handshake_is_refused(site: Site, owner: Actor, path: str) -> None:
    """It was a traceback in the log and a 500."""
    said = len(site.log())
    credentials = {"Authorization": f"Bearer {token_of(owner)}"}
    with pytest.raises(InvalidStatus) as refused, opened(site, path, **credentials):
        pass
    assert refused.value.response.status_code == 403
    assert '"level": "error"' not in site.log()[said:]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", ""])
def test_a_foreign_page_does_not_get_as_far_as_a_socket(site: Site, run: Run, owner: Actor, origin: str) -> None:
    headers = {"Cookie": cookie_of(owner)} | ({"Origin": origin} if origin else {})
    with pytest.raises(InvalidStatus) as refused, opened(site, path_of(run), **headers):
        pass
    assert refused.value.response.status_code == 403


def test_a_foreign_page_with_a_token_does_not_either(site: Site, run: Run, owner: Actor) -> None:
    headers = {"Authorization": f"Bearer {token_of(owner)}", "Origin": "http://evil.example"}
    with pytest.raises(InvalidStatus), opened(site, path_of(run), **headers):
        pass


def test_nobody_is_told_to_sign_in(site: Site, run: Run) -> None:
    with opened(site, path_of(run), Origin=site.base) as watcher:
        assert closed_with(watcher) == (4501, "not_signed_in")
    with opened(site, path_of(run), Authorization="Bearer outlive_wrong") as watcher:
        assert closed_with(watcher) == (4501, "not_signed_in")


def test_a_foreign_run_looks_like_one_that_does_not_exist(site: Site, run: Run, outsider: Actor) -> None:
    token = {"Authorization": f"Bearer {token_of(outsider)}"}
    for path in (path_of(run), f"/ws/v1/runs/{text_id('run', UUID(int=5))}/", "/ws/v1/runs/nonsense/"):
        with opened(site, path, **token) as watcher:
            assert closed_with(watcher) == (4504, "unknown_run")
    with opened(site, path_of(run), Cookie=cookie_of(outsider), Origin=site.base) as watcher:
        assert closed_with(watcher) == (4504, "unknown_run")


def test_a_token_without_the_right_to_read_is_forbidden(site: Site, run: Run, owner: Actor) -> None:
    with opened(site, path_of(run), Authorization=f"Bearer {token_of(owner, ['runs:write'])}") as watcher:
        assert closed_with(watcher) == (4503, "forbidden")


@pytest.mark.parametrize("query", ["?after=5", "?after=st_x:1"])
def test_a_malformed_cursor_is_a_bad_protocol(site: Site, run: Run, owner: Actor, query: str) -> None:
    with opened(site, path_of(run, query), Authorization=f"Bearer {token_of(owner)}") as watcher:
        assert closed_with(watcher) == (4500, "bad_protocol")


@pytest.mark.parametrize("text", ["nonsense", '{"type":"cancel"}', "[]"])
def test_a_frame_that_is_not_ours_ends_the_connection(site: Site, run: Run, owner: Actor, text: str) -> None:
    with watching(site, run, token_of(owner)) as watcher:
        watcher.until("caught_up")
        watcher.socket.send(text)
        assert closed_with(watcher) == (4500, "bad_protocol")


def test_an_ended_run_closes_with_1000(site: Site, run: Run, owner: Actor) -> None:
    with watching(site, run, token_of(owner)) as watcher:
        watcher.until("caught_up")
        end(run)
        assert closed_with(watcher) == (1000, "ended")
        assert watcher.events[-1]["type"] == "run.cancelled"


def test_a_revoked_token_ends_its_streams_and_no_others(site: Site, run: Run, owner: Actor, teammate: Actor) -> None:
    with watching(site, run, token_of(owner)) as mine, watching(site, run, token_of(teammate)) as other:
        mine.until("caught_up")
        other.until("caught_up")
        ApiToken.objects.filter(user=owner.user).update(revoked_at=timezone.now())
        assert closed_with(mine)[0] == 4501
        emit(run, *deltas(1))
        other.until_seq(2)


def test_a_control_connection_counts_and_its_loss_starts_the_grace(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    with watching(site, run, token_of(owner), role="control") as watcher:
        ready = watcher.until("ready")
        assert (ready["role"], ready["generation"], ready["grace_s"]) == ("control", 1, 5.0)
        run.refresh_from_db()
        assert (run.control_count, run.grace_expires_at) == (1, None)
    wait_until(lambda: Run.objects.get().control_count == 0, 10, "the detach")
    assert Run.objects.get().grace_expires_at is not None


def test_presence_is_renewed_by_the_client_only(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=5.0)
    with watching(site, run, token_of(owner), role="control") as watcher:
        watcher.until("caught_up")
        before = ControlConnection.objects.get().presence_until
        watcher.until("heartbeat")  # the server speaks, the client does not
        assert ControlConnection.objects.get().presence_until == before
        watcher.socket.send('{"type":"keepalive"}')
        wait_until(lambda: ControlConnection.objects.get().presence_until > before, 5)


def test_a_control_connection_that_was_closed_meanwhile_attaches_anew(site: Site, owner: Actor) -> None:
    run = builders.a_run(owner, on_disconnect="grace", grace_seconds=50.0)
    with watching(site, run, token_of(owner), role="control") as watcher:
        watcher.until("caught_up")
        detach_control(ControlConnection.objects.get().pk)
        assert Run.objects.get().control_count == 0
        watcher.socket.send('{"type":"ack","seq":1}')
        wait_until(lambda: Run.objects.get().control_count == 1, 5)
        assert Run.objects.get().grace_expires_at is None


def test_who_may_not_stop_the_run_only_watches(site: Site, run: Run, viewer: Actor, teammate: Actor) -> None:
    for actor in (viewer, teammate):
        with watching(site, run, token_of(actor), role="control") as watcher:
            assert watcher.until("ready")["role"] == "viewer"
    assert ControlConnection.objects.count() == 0


def next_changes(watcher: Watcher) -> dict[str, Any]:
    frame = watcher.until("run.changed")
    return {frame["run"]: frame["version"]}


def test_the_feed_tells_of_changed_runs_of_the_own_tenant(site: Site, run: Run, owner: Actor, outsider: Actor) -> None:
    foreign = builders.a_run(outsider)
    with opened(site, "/ws/v1/runs/", Authorization=f"Bearer {token_of(owner)}") as watcher:
        watcher.until("ready")
        emit(foreign, *deltas(1))
        emit(run, *deltas(1))
        version = Run.objects.get(pk=run.pk).version
        assert next_changes(watcher) == {text_id("run", run.pk): version}


def test_the_feed_finds_changes_whose_doorbells_were_lost(site: Site, run: Run, owner: Actor) -> None:
    with opened(site, "/ws/v1/runs/", Authorization=f"Bearer {token_of(owner)}") as watcher:
        watcher.until("ready")
        emit(run, *deltas(1), rings=False)
        version = Run.objects.get(pk=run.pk).version
        assert next_changes(watcher) == {text_id("run", run.pk): version}


def test_connections_to_the_database_that_break_end_no_stream_and_keep_nobody_out(
    site: Site, run: Run, owner: Actor
) -> None:
    """As a restart of PostgreSQL breaks them: those of the threads of requests, and those of the hub."""
    token = token_of(owner)
    with watching(site, run, token) as before, ExitStack() as opened:
        before.until("caught_up")
        with connection.cursor() as cursor:
            cursor.execute(
                "select pid, pg_terminate_backend(pid, 10000) from pg_stat_activity"
                " where datname = current_database() and pid <> pg_backend_pid()"
            )
            ended = cursor.fetchall()
            assert len(ended) >= 3
            assert all(has_gone for _, has_gone in ended)
        after = [opened.enter_context(watching(site, run, token)) for _ in range(6)]
        emit(run, *deltas(3))
        for watcher in (before, *after):
            watcher.until_seq(4)
            assert watcher.seqs == [1, 2, 3, 4]
