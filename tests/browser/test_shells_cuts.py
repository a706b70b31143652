"""Programs that paint the screen, over all that can be cut: what is shown then is what a window shows that never was.

That window has a web process of its own, which nobody kills. One installation and one shell for each program; each of
the faults comes over all of them at once.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Visitor
from tests.browser.serving import signed_in, web_process
from tests.browser.terminal import (
    SCREEN,
    SECONDS,
    SERIALISED,
    Wire,
    address,
    in_control,
    prompted,
    same,
    see,
    see_some,
    type_echo,
)
from tests.stack import LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]
CUT_MS = 3000
IS_THERE = """() => {
  const { link, terminal } = globalThis.outliveShell ?? {}; // none yet, just after a reload
  return Boolean(link?.isLive && link.isPilot && !terminal.isReplaying);
}"""


@dataclass(frozen=True)
class Program:
    """What paints. shown: a pattern of its first screen; key: changes it; last: on its last one; end: leaves it."""

    command: str
    shown: str
    key: str = ""
    last: str = ""
    end: str = ""


PROGRAMS = {
    "vim": Program("vim -u NONE -i NONE /etc/services", '"/etc/services"', key="Control+f", end=":q!\n"),
    "less": Program("less /etc/services", "(?s)^alternate.*/etc/services", key="Space", end="q"),
    "top": Program("top -d 600", "PID", key="m", end="q"),
    # The last one to be begun: the fault comes in its midst.
    "progress": Program(
        r"printf '\033[32m'; for i in $(seq 40); do printf '\r%s%%' $i; sleep 0.1; done; printf '\033[0m\n'",
        r"(?m)^\d+%",
        last="40%",
    ),
}


@dataclass
class Seat:
    """A shell: the page that is cut, the window that never is, and what the latter showed before."""

    name: str
    run: str
    page: Page
    wire: Wire
    stayed: Page
    before: str = ""  # a key was pressed

    @property
    def program(self) -> Program:
        return PROGRAMS[self.name]


@dataclass
class Table:
    """One shell for each program, opened when they are asked for."""

    stack: LiveStack
    visitor: Visitor
    steady: str
    laid: list[Seat] = field(default_factory=list)

    def seats(self) -> list[Seat]:
        """Give them, at their prompts."""
        if not self.laid:
            self.laid = [self._seat(name) for name in PROGRAMS]
        return self.laid

    def _seat(self, name: str) -> Seat:
        answer = self.stack.client.post("/shells", json={"title": name})
        assert answer.status_code == 201, answer.text
        page = self.visitor.open("/shells/")
        wire = Wire(page)
        page.goto(f"{self.visitor.base_url}/shells/{answer.json()['id']}/")
        in_control(page)
        stayed = self.visitor.open("/healthz")
        stayed.goto(self.steady + address(page))
        expect(stayed.locator("#pilot")).to_contain_text("is in control")
        return Seat(name, answer.json()["run"], page, wire, stayed)

    def claims(self, seat: Seat) -> int:
        """Count how often a worker has taken the shell on."""
        return [event["type"] for event in self.stack.events(seat.run)].count("claim.started")

    def clear(self) -> None:
        """Have none that are in the midst of something."""
        for seat in self.laid:
            seat.page.close()
            seat.stayed.close()
            self.stack.stop(seat.run)
        self.laid = []


@pytest.fixture(scope="module")
def table(browser: Browser, stack: LiveStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Table]:
    environ = stack.the("streaming.server").environ()
    with ExitStack() as opened:
        steady = opened.enter_context(web_process(tmp_path_factory.mktemp("steady"), environ))
        visitor = opened.enter_context(signed_in(browser, stack))
        for complaint in ("WebSocket", "net::ERR_"):  # the browser says that it was cut
            visitor.expect(complaint)
        laid = Table(stack, visitor, steady)
        yield laid
        laid.clear()


@contextmanager
def programs(table: Table) -> Iterator[list[Seat]]:
    """Have each program on its screen, with a key pressed whose answer may still be on its way."""
    try:
        seats = table.seats()
        for seat in seats:
            prompted(seat.page)
            seat.page.keyboard.type(seat.program.command + "\n")
        for seat in seats:
            wait_until(lambda: re.search(seat.program.shown, seat.stayed.evaluate(SCREEN)), seconds=SECONDS,  # noqa: B023
                       what=lambda: f"{seat.name} on {seat.stayed.evaluate(SCREEN)!r}")  # noqa: B023  # fmt: skip
        for seat in seats:
            if seat.program.key:
                seat.before = seat.stayed.evaluate(SCREEN)
                seat.page.keyboard.press(seat.program.key)
        yield seats
    except BaseException:
        table.clear()  # the next test begins anew
        raise


def is_answered(seat: Seat) -> None:
    """Wait until the window that stayed shows what the key has changed."""
    wait_until(lambda: seat.stayed.evaluate(SCREEN) != seat.before, seconds=SECONDS, what=f"{seat.name} and its key")


def is_whole(seat: Seat, page: Page, word: str) -> None:
    """Wait until a page shows what the other one does; leave the program, and type into the shell, which comes once."""
    program = seat.program
    is_answered(seat)
    if program.last:
        see_some(seat.stayed, program.last)
        prompted(seat.stayed)
    same(page, seat.stayed, SCREEN)
    same(page, seat.stayed, SERIALISED)
    page.keyboard.type(program.end)
    prompted(page)  # programs that end throw away what was typed ahead
    type_echo(page, word)
    prompted(page)
    for window in (page, seat.stayed):
        see(window, f"{word}-42")
    same(page, seat.stayed, SCREEN)
    same(page, seat.stayed, SERIALISED)


def are_there(seats: list[Seat], sockets: list[int] | None = None) -> None:
    """Wait until they are in control; by a newer socket, where it is said how many they had."""
    for seat, had in zip(seats, sockets or [0] * len(seats), strict=True):
        wait_until(lambda: seat.page.evaluate(IS_THERE) and len(seat.wire.opened) > had,  # noqa: B023
                   seconds=2 * SECONDS, what=f"{seat.name}, again in control")  # fmt: skip


def reload(table: Table, seats: list[Seat]) -> None:
    for seat in seats:
        is_answered(seat)  # a page that goes takes along what it has not sent
        seat.page.reload()
    are_there(seats)


def cut(table: Table, seats: list[Seat]) -> None:
    sockets = [len(seat.wire.opened) for seat in seats]
    for seat in seats:
        seat.wire.down()
    seats[0].page.wait_for_timeout(CUT_MS)
    for seat in seats:
        seat.wire.is_down = False
    are_there(seats, sockets)


def kill_web(table: Table, seats: list[Seat]) -> None:
    sockets = [len(seat.wire.opened) for seat in seats]
    table.stack.kill("streaming.server")
    are_there(seats, sockets)


def kill_worker(table: Table, seats: list[Seat]) -> None:
    claims = [table.claims(seat) for seat in seats]
    table.stack.kill("runs.execution.worker_main")
    for seat, before in zip(seats, claims, strict=True):
        wait_until(lambda: table.claims(seat) > before, seconds=2 * SECONDS, what=f"a worker for {seat.name}")  # noqa: B023
    are_there(seats)


@pytest.mark.parametrize("fault", [reload, cut, kill_web, kill_worker], ids=lambda fault: fault.__name__)
def test_a_program_that_was_cut_shows_what_a_window_shows_that_never_was(
    table: Table, fault: Callable[[Table, list[Seat]], None]
) -> None:
    with programs(table) as seats:
        fault(table, seats)
        for seat in seats:
            is_whole(seat, seat.page, f"{fault.__name__}-{seat.name}")


def test_a_second_tab_shows_the_program_and_types_into_it_once_it_has_taken_control(table: Table) -> None:
    with programs(table) as seats:
        tabs = [table.visitor.open(address(seat.page)) for seat in seats]
        for seat, tab in zip(seats, tabs, strict=True):
            expect(tab.locator("#pilot")).to_contain_text("is in control")
            same(tab, seat.stayed, SCREEN)
            tab.locator("#take").click()
            in_control(tab)
            is_whole(seat, tab, f"tab-{seat.name}")
            same(seat.page, seat.stayed, SCREEN)
            tab.close()
            seat.page.locator("#take").click()  # where the next one begins
            in_control(seat.page)
