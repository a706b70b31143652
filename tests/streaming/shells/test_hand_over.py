"""An agent's shell: people watch it, take it over, and hand it back."""

import asyncio

import httpx
import pytest

from runs.access import Actor
from runs.models import AuditEntry, ControlConnection, Shell
from tests.builders import an_agents_shell
from tests.streaming.conftest import token_of
from tests.streaming.shells.conftest import SCOPES, SECONDS, Place, key_of
from tools.processes.terminals.link import Terminal

pytestmark = pytest.mark.timeout(120)


def opened(place: Place, actor: Actor) -> Shell:
    shell = an_agents_shell(actor)
    place.start(shell)
    return shell


def test_opening_its_page_makes_nobody_its_pilot(place: Place, owner: Actor) -> None:
    shell = opened(place, owner)
    with place.seat(shell, owner, role="pilot") as seat:
        assert seat.frame("ready")["role"] == "viewer"
        run = seat.frame("run")
        assert (run["opened_by"], run["held_by"]) == ("agent", None)
        seat.type("echo ne''ver\r")  # of a viewer, nothing goes in
        seat.say("take_control")
        seat.frame("pilot", mine=True)
        seat.until(lambda: seat.generation is not None and seat.taken == 0)
        seat.type("echo mi''ne\r")
        seat.sees("mine\r\n")
        assert b"never\r\n" not in seat.output


def test_it_is_theirs_until_they_hand_it_back(place: Place, owner: Actor, operator: Actor) -> None:
    shell = opened(place, owner)
    with place.seat(shell, owner, role="viewer") as watching:
        watching.frame("run", held_by=None)
        with place.seat(shell, operator, role="pilot") as taking:
            taking.frame("ready", role="viewer")
            taking.say("take_control")
            taking.frame("pilot", mine=True)
            watching.frame("run", held_by=operator.user.username)
        shell.refresh_from_db()
        assert shell.held_by == operator.user  # who goes away hands nothing back
        with place.seat(shell, owner, role="pilot") as another:  # nor does it fall to the next one who looks
            assert another.frame("ready")["role"] == "viewer"
            another.say("hand_back")  # it is not theirs to give
            another.frame("pilot", mine=False)
        with place.seat(shell, operator, role="pilot") as back:
            assert back.frame("ready")["role"] == "pilot"
            back.frame("pilot", mine=True)
            back.frames.clear()
            back.say("hand_back")
            back.frame("pilot", mine=False)
            assert (back.frames[0]["type"], back.frames[0]["held_by"]) == ("run", None)  # no word of them in between
            watching.frames.clear()
            watching.frame("run", held_by=None)
            back.type("echo ne''ver\r")
        with place.seat(shell, operator, role="pilot") as later:
            assert later.frame("ready")["role"] == "viewer"
            assert b"never\r\n" not in later.output
    shell.refresh_from_db()
    assert shell.held_by is None
    entries = AuditEntry.objects.order_by("pk").values_list("user", "action", "detail__from")
    assert list(entries) == [
        (operator.user.pk, "shell.taken_over", "agent"),
        (operator.user.pk, "shell.handed_back", None),
    ]


def test_a_viewer_cannot_take_it_over(place: Place, owner: Actor, viewer: Actor) -> None:
    shell = opened(place, owner)
    with place.seat(shell, viewer, role="pilot") as seat:
        seat.frame("ready", role="viewer")
        seat.say("take_control")
        seat.until(lambda: [f["type"] for f in seat.frames].count("pilot") >= 2)
        assert not any(f["mine"] for f in seat.frames if f["type"] == "pilot")
    shell.refresh_from_db()
    assert shell.held_by is None


def test_taken_over_and_handed_back_without_a_socket(place: Place, owner: Actor, operator: Actor) -> None:
    """The terminal knows of it before the answer, so that no line whose question came earlier goes in; all are told."""
    shell = opened(place, owner)

    def ask(what: str, actor: Actor) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token_of(actor, SCOPES)}"}
        return httpx.post(f"{place.site.base}/api/v1/shells/{key_of(shell)}/{what}", headers=headers, timeout=SECONDS)

    with place.seat(shell, owner) as watching:
        watching.frame("run", held_by=None)
        taken = ask("take_over", operator)
        assert (taken.status_code, taken.json()["held_by"]) == (200, operator.user.username)
        assert knows_of(place, shell) == ControlConnection.objects.get(run=shell.run_id).generation
        watching.frame("run", held_by=operator.user.username)
        refused = ask("hand_back", owner)
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "shell_held")
        with place.seat(shell, operator, role="pilot") as pilot:
            pilot.frame("ready", role="pilot")
            assert ask("hand_back", operator).json()["held_by"] is None
            pilot.type("echo ne''ver\r")
            pilot.say("keepalive")
            pilot.frame("pilot", mine=False)
            assert b"never\r\n" not in pilot.output


def knows_of(place: Place, shell: Shell) -> int:
    """Say which generation the terminal has last heard of."""

    async def ask() -> int:
        async with Terminal.attach(str(place.folder), key_of(shell), role="viewer") as terminal:
            return int(terminal.welcome["pilot"])

    return asyncio.run(ask())
