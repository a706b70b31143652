"""Shells in a real Chromium against the whole installation: a real terminal behind, real cuts, real deaths."""

import re

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import Visitor, new_visitor
from tests.browser.terminal import (
    BUFFER,
    SCREEN,
    SECONDS,
    Wire,
    address,
    in_control,
    opened,
    prompted,
    same,
    see,
    see_some,
    type_echo,
)
from tests.browser.test_accessibility import FAINT, FAULTS
from tests.stack import LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]


def test_output_is_there_once_and_in_order_over_cuts_and_a_reload(newcomer: Visitor) -> None:
    """FAULTS B46."""
    page = newcomer.open("/shells/")
    wire = Wire(page)
    newcomer.expect("WebSocket")  # the browser says that it was cut
    page.get_by_role("button", name="Open a shell").click()
    in_control(page)
    page.keyboard.type("for i in $(seq 1 900); do echo L$i; sleep 0.005; done; echo all-$((40+2))\n")
    see(page, "L100")
    wire.cut(page, 3000)
    in_control(page)
    see(page, "L500")
    wire.cut(page, 500)
    see(page, "all-42")
    lines = [line for line in page.evaluate(BUFFER).split("\n") if re.fullmatch(r"L\d+", line)]
    assert lines == [f"L{n}" for n in range(1, 901)]
    page.reload()
    in_control(page)
    see(page, "all-42")
    after = [line for line in page.evaluate(BUFFER).split("\n") if re.fullmatch(r"L\d+", line)]
    assert after
    assert after == [f"L{n}" for n in range(901 - len(after), 901)]
    type_echo(page, "reloaded")


def test_questions_of_a_replay_are_answered_by_nobody(newcomer: Visitor) -> None:
    """FAULTS B47."""
    page = newcomer.open("/shells/")
    wire = Wire(page)
    page.get_by_role("button", name="Open a shell").click()
    in_control(page)
    page.keyboard.type(r"printf '\033[c\033[6n\033]11;?\007'; sleep 1" + "\n")
    see_some(page, "1;2c")  # the pilot's terminal answers; what nobody read ends up in the command line
    page.keyboard.press("Control+c")
    type_echo(page, "BEFORE")
    assert wire.typed.count(b"\x1b[?1;2c") == 1
    wire.typed.clear()
    page.reload()
    in_control(page)
    page.wait_for_timeout(3000)
    assert not wire.typed, "nothing was asked anew, so nothing is said"
    page.keyboard.type("echo CLEAN\n")
    see(page, "CLEAN")
    prompted(page)
    assert page.evaluate(BUFFER).rstrip().split("\n")[-3].endswith("$ echo CLEAN")


def test_of_two_windows_one_types_and_there_is_no_ping_pong(newcomer: Visitor) -> None:
    """FAULTS B48."""
    first = opened(newcomer)
    type_echo(first, "first")
    second = newcomer.open(address(first))
    expect(second.locator("#pilot")).to_have_text("Another window of yours is in control")
    see(second, "first-42")
    second.keyboard.type("echo viewer\n")  # a viewer's keys have no effect
    second.locator("#take").click()
    in_control(second)
    expect(first.locator("#take")).to_be_visible()
    size = second.evaluate("() => [outliveShell.terminal.term.rows, outliveShell.terminal.term.cols]")
    first.set_viewport_size({"width": 700, "height": 500})  # neither have the displaced window's keys and size
    first.locator("#terminal").click()
    first.keyboard.type("echo displaced\n")
    type_echo(second, "second")
    see(first, "second-42")
    assert "displaced" not in second.evaluate(BUFFER)
    assert "echo viewer" not in second.evaluate(BUFFER)
    assert second.evaluate("() => [outliveShell.terminal.term.rows, outliveShell.terminal.term.cols]") == size
    same(first, second, BUFFER)
    first.locator("#take").click()  # and it goes back by a click
    in_control(first)
    type_echo(first, "third")


def test_every_window_takes_a_size_on_at_the_same_byte(newcomer: Visitor) -> None:
    """Its pilot resizes, over a slow way, while a program writes at the right edge: the order says what is where."""
    page = newcomer.open("/shells/")
    wire = Wire(page)
    page.get_by_role("button", name="Open a shell").click()
    in_control(page)
    stayed = newcomer.open(address(page))
    expect(stayed.locator("#pilot")).to_contain_text("is in control")
    prompted(page)
    # No `read -t`: bash drops the line whose end it reads just as its timer fires.
    write = r"i=0; while :; do printf '\033[%d;999H%d' $((i%12+1)) $((i++%10)); sleep 0.005; done"
    until = r"read x; kill $!; wait $! 2>/dev/null"
    page.keyboard.type(rf"(printf '\033[?1049h'; {write} & {until}; printf '\033[Hall-%d' $((40+2)); read x)" + "\n")
    wait_until(lambda: page.evaluate(SCREEN).startswith("alternate"), what="the program's screen")
    wire.is_slow = True
    for width in (800, 1000):
        before = page.evaluate("outliveShell.terminal.term.cols")
        page.set_viewport_size({"width": width, "height": 700})
        wait_until(lambda: stayed.evaluate("outliveShell.terminal.term.cols") != before, what="its new size")  # noqa: B023
    page.keyboard.type("\n")
    see_some(page, "all-42")
    same(page, stayed, SCREEN)
    page.reload()
    in_control(page)
    same(page, stayed, SCREEN)


def test_everything_around_the_terminal_has_a_name_and_can_be_read(newcomer: Visitor, browser: Browser) -> None:
    """Light and dark, wide and as a phone, in both languages; named by who opened it."""
    page = newcomer.open("/shells/")
    page.get_by_label("Title").fill("My own name")
    page.get_by_role("button", name="Open a shell").click()
    in_control(page)
    expect(page.locator("h1")).to_have_text("My own name")
    prompted(page)
    is_fine(page, "en")
    (session,) = [cookie["value"] for cookie in newcomer.context.cookies() if cookie["name"] == "sessionid"]
    reader = new_visitor(browser, newcomer.base_url, session=session, locale="zh-CN")
    read = reader.open(address(page))
    expect(read.locator("#pilot")).to_contain_text("窗口")
    expect(read.locator("html")).to_have_attribute("lang", "zh-hans")
    is_fine(read, "zh")
    reader.close()


def is_fine(page: Page, language: str) -> None:
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 800})
            case = (language, scheme, width)
            assert page.evaluate(FAULTS) == [], case
            assert page.evaluate(FAINT) == [], case
            assert page.evaluate("document.documentElement.scrollWidth") <= width, case


def test_a_shell_outlives_its_web_process_and_its_worker(newcomer: Visitor, stack: LiveStack) -> None:
    page = opened(newcomer)
    page.keyboard.type("X=kept; echo pid-$$-\n")
    see_pid = re.compile(r"^pid-\d+-$", re.MULTILINE)
    wait_until(lambda: see_pid.search(page.evaluate(BUFFER)), seconds=SECONDS, what="the shell's pid")
    said = see_pid.findall(page.evaluate(BUFFER))
    newcomer.expect("WebSocket connection")
    newcomer.expect("net::ERR_")
    stack.kill("streaming.server")
    page.keyboard.type("echo $X-over-web\n")  # typed into the cut
    see(page, "kept-over-web")
    in_control(page)
    stack.kill("runs.execution.worker_main")
    page.keyboard.type("echo $X-over-worker\n")
    see(page, "kept-over-worker")
    page.keyboard.type("echo pid-$$-\n")
    wait_until(lambda: len(see_pid.findall(page.evaluate(BUFFER))) == 2, seconds=SECONDS, what="its pid again")
    assert see_pid.findall(page.evaluate(BUFFER)) == said * 2
    page.keyboard.type("exit 3\n")
    expect(page.locator("#ended")).to_contain_text("Ended: exit 3", timeout=SECONDS * 1000)
    expect(page.locator("#shell [data-status=completed]").first).to_be_visible(timeout=SECONDS * 1000)


def test_stop_from_the_page_is_a_proof_and_a_new_shell_is_asked_for(newcomer: Visitor) -> None:
    page = opened(newcomer, "cat")
    page.keyboard.type("words\n")
    see(page, "words", 2)
    page.locator("#stop").click()
    expect(page.locator("#shell [data-status=cancelled]").first).to_be_visible(timeout=SECONDS * 1000)
    expect(page.locator("#ended")).to_contain_text("stopped")
    old = page.url
    page.get_by_role("button", name="Start new shell").click()
    in_control(page)
    assert page.url != old
    page.keyboard.type("anew\n")
    see(page, "anew", 2)
