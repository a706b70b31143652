"""What a shell's page offers around its terminal, in a real Chromium: to find, to follow, to read, to paste, to end."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Visitor
from tests.browser.terminal import (
    BUFFER,
    SCREEN,
    SECONDS,
    Wire,
    address,
    in_control,
    opened,
    prompted,
    see,
    see_some,
    type_echo,
)
from tests.second_try import of_this_try
from tests.stack import LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SELECTED = "() => outliveShell.terminal.term.getSelection()"
# Where a text of the screen is, in pixels of the page.
PLACE = """(text) => {
  const { term } = outliveShell.terminal, buffer = term.buffer.active;
  const box = document.querySelector(".xterm-screen").getBoundingClientRect();
  for (let y = term.rows - 1; y >= 0; y -= 1) {
    const x = buffer.getLine(buffer.viewportY + y).translateToString(true).indexOf(text);
    if (x >= 0) return [box.x + (x + 2.5) * box.width / term.cols, box.y + (y + 0.5) * box.height / term.rows];
  }
}"""
PASTE = """(text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  const target = document.querySelector("#terminal textarea");
  target.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""


def is_focused(page: Page) -> None:
    expect(page.locator("#terminal textarea")).to_be_focused()


def test_a_text_is_found_in_what_has_scrolled_away(newcomer: Visitor) -> None:
    page = opened(newcomer)
    page.keyboard.type("seq -f 'n%g.' 1 500; echo all-$((40+2))\n")
    see(page, "all-42")
    page.keyboard.press("Control+Shift+F")
    needle = page.get_by_role("textbox", name="Find in the terminal")
    expect(needle).to_be_focused()
    expect(page.locator("#find")).to_have_attribute("aria-expanded", "true")
    needle.fill("n17.")
    needle.press("Enter")
    wait_until(lambda: page.evaluate(SELECTED) == "n17.", seconds=SECONDS, what="the selection")
    shown = "() => { const b = outliveShell.terminal.term.buffer.active; return b.viewportY < b.baseY; }"
    wait_until(lambda: page.evaluate(shown), seconds=SECONDS, what="that it scrolls there")
    needle.fill("n1")
    page.get_by_role("button", name="Next").click()
    first = page.evaluate("() => outliveShell.terminal.term.getSelectionPosition().start.y")
    page.get_by_role("button", name="Next").click()
    assert page.evaluate("() => outliveShell.terminal.term.getSelectionPosition().start.y") > first
    page.get_by_role("button", name="Previous").click()
    assert page.evaluate("() => outliveShell.terminal.term.getSelectionPosition().start.y") == first
    needle.fill("nowhere to be seen")
    needle.press("Enter")
    expect(page.locator("#found")).to_have_text("Not found")
    needle.press("Escape")
    expect(page.locator("#finder")).to_be_hidden()
    expect(page.locator("#find")).to_have_attribute("aria-expanded", "false")
    is_focused(page)
    page.locator("#find").click()
    page.get_by_role("button", name="Close").click()
    is_focused(page)
    type_echo(page, "found")


def test_a_web_address_is_opened_apart_and_nothing_else_is(newcomer: Visitor, stack: LiveStack) -> None:
    page = opened(newcomer)
    prompted(page)
    page.keyboard.type("clear\n")
    target = f"{stack.base_url}/healthz"
    said = rf"printf 'see %s now\n\033]8;;javascript:alert(1)\007bad''link\033]8;;\007\n' {target}" + "\n"
    page.keyboard.type(said)
    see(page, f"see {target} now")
    x, y = page.evaluate(PLACE, "badlink")
    page.mouse.move(x, y)
    page.mouse.click(x, y)
    x, y = page.evaluate(PLACE, f"{target} now")
    page.mouse.move(x, y)
    expect(page.locator("#terminal .xterm-cursor-pointer")).to_be_visible()
    with newcomer.context.expect_page() as news:
        page.mouse.click(x, y)
    news.value.wait_for_url(target)
    assert news.value.evaluate("window.opener") is None
    assert len(newcomer.context.pages) == 2, "the other one was followed"
    news.value.close()


def test_the_switch_for_screen_readers_gives_the_screen_as_text_and_is_kept(newcomer: Visitor) -> None:
    page = opened(newcomer)
    page.keyboard.type("echo heard-$((40+2))\n")
    see(page, "heard-42")
    rows = page.locator("#terminal .xterm-accessibility-tree")
    expect(rows).to_have_count(0)
    page.keyboard.press("Control+Shift+L")  # out of the terminal by the keyboard
    expect(page.locator("#terminal textarea")).not_to_be_focused()
    switch = page.get_by_label("For a screen reader")
    switch.check()
    expect(rows).to_contain_text("heard-42")
    page.reload()
    in_control(page)
    expect(switch).to_be_checked()
    expect(rows).to_contain_text("heard-42")
    switch.uncheck()
    expect(rows).to_have_count(0)
    page.locator("#terminal").click()
    type_echo(page, "unheard")


def test_enter_reconnects_and_is_not_typed(newcomer: Visitor) -> None:
    page = newcomer.open("/shells/")
    wire = Wire(page)
    newcomer.expect("WebSocket")
    page.get_by_role("button", name="Open a shell").click()
    in_control(page)
    prompted(page)
    # The page itself would not try again before the test is over.
    page.evaluate("() => Object.assign(outliveShell.link.timing, { first_delay: 1e6, last_delay: 1e6 })")
    wire.cut(page, 300)
    expect(page.locator("#connection")).to_contain_text("Reconnecting")
    before = page.evaluate(SCREEN)
    is_focused(page)
    page.keyboard.press("Enter")
    page.wait_for_function("() => outliveShell.link.isLive && !outliveShell.terminal.isReplaying")
    expect(page.locator("#connection")).to_contain_text("Live")
    expect(page.locator("#notice")).to_contain_text("Reattached")
    type_echo(page, "enter")
    assert page.evaluate(SCREEN).split("\n")[3] == before.split("\n")[3] + " echo enter-$((40+2))", "an empty line"
    assert b"\r" not in bytes(wire.typed).removesuffix(b"\r")


def test_the_keys_that_a_phone_lacks(newcomer: Visitor) -> None:
    page = opened(newcomer)
    prompted(page)
    bar = page.get_by_role("toolbar", name="Keys")
    expect(bar).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 800})
    expect(bar).to_be_visible()
    page.keyboard.type("cat -v\n")
    see_some(page, "cat -v")
    for name in ("Esc", "Left", "Up", "Down", "Right"):
        bar.get_by_role("button", name=name, exact=True).click()
        is_focused(page)
    page.keyboard.press("Enter")
    see(page, "^[^[[D^[[A^[[B^[[C", 2)  # the echo of the terminal, and what cat read
    control = bar.get_by_role("button", name="Ctrl")
    control.click()
    expect(control).to_have_attribute("aria-pressed", "true")
    page.keyboard.type("c")
    expect(control).to_have_attribute("aria-pressed", "false")
    prompted(page)
    page.keyboard.type("ech")
    bar.get_by_role("button", name="Tab").click()  # completes it
    page.keyboard.type("tapped-$((40+2))\n")
    see(page, "tapped-42")


def test_a_paste_of_lines_is_asked_for_first(newcomer: Visitor) -> None:
    page = opened(newcomer, "cat")
    dialog = page.get_by_role("dialog")

    def pasted(text: str, lines: int, button: str) -> None:
        page.evaluate(PASTE, text)
        expect(dialog.get_by_role("heading")).to_have_text(f"Paste {lines} lines?")
        dialog.get_by_role("button", name=button, exact=True).click()
        expect(dialog).to_be_hidden()
        is_focused(page)

    pasted("bad one\nbad two\n", 2, "Do not paste")
    page.evaluate(PASTE, "worse one\nworse two")
    expect(dialog.locator("pre")).to_have_text("worse one\nworse two")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    pasted("three\nfour\nfive", 3, "Paste as one line")
    page.keyboard.press("Enter")
    see(page, "three four five", 2)
    pasted("six\nseven\n", 2, "Paste")
    see(page, "six", 2)
    see(page, "seven", 2)
    page.evaluate(PASTE, "eight")  # of one line nobody is asked
    expect(dialog).to_be_hidden()
    page.keyboard.press("Enter")
    see(page, "eight", 2)
    assert not re.search("bad|worse", page.evaluate(BUFFER))


def test_a_shell_that_nobody_controls_is_kept_or_ended_from_its_banner(newcomer: Visitor, stack: LiveStack) -> None:
    page = opened(newcomer)
    banner, watching = page.locator("#grace"), newcomer.open(address(page))
    expect(watching.locator("#pilot")).to_contain_text("is in control")
    expect(banner).to_be_hidden()
    page.get_by_role("button", name="Release").click()
    for window in (page, watching):
        expect(window.locator("#grace")).to_contain_text(
            re.compile(r"Nobody is in control. The shell ends in 1[45]:\d\d")
        )
        expect(window.locator("#pilot")).to_have_text("Nobody is in control")
    runs = newcomer.open("/shells/")
    expect(runs.locator("tbody tr").first).to_contain_text("ends in")
    watching.get_by_role("button", name="Keep 1 h").click()
    for window in (page, watching):
        expect(window.locator("#grace")).to_contain_text(re.compile(r"ends in (59:\d\d|60:\d\d|1:00:00)"))
    expect(watching.locator("#announce")).to_have_text("The shell is kept for an hour.")
    page.locator("#take").click()
    in_control(page)
    for window in (page, watching):
        expect(window.locator("#grace")).to_be_hidden()
    page.get_by_role("button", name="Release").click()
    expect(watching.locator("#grace")).to_contain_text(re.compile(r"ends in 1[45]:\d\d"))
    watching.get_by_role("button", name="End now").click()
    for window in (page, watching):
        expect(window.locator("#shell [data-status=cancelled]").first).to_be_visible()
        expect(window.locator("#ended")).to_contain_text("stopped")
        expect(window.locator("#grace")).to_be_hidden()


def test_the_last_minute_is_in_the_title_and_the_end_says_why(newcomer: Visitor, stack: LiveStack) -> None:
    answer = stack.client.post("/shells", json={"title": "Short", "on_disconnect": {"grace_s": 8}})
    assert answer.status_code == 201, answer.text
    page = in_control(newcomer.open(f"/shells/{answer.json()['id']}/"))
    page.get_by_role("button", name="Release").click()
    expect(page.locator("#announce")).to_contain_text(re.compile(r"ends in 0:0\d"))
    wait_until(lambda: page.title().startswith("⏳"), seconds=SECONDS, what="the title")
    expect(page.locator("#ended")).to_contain_text("nobody came back in time")
    wait_until(lambda: not page.title().startswith("⏳"), seconds=SECONDS, what="the title without it")


def test_a_recorded_shell_says_so_and_gives_its_recording(newcomer: Visitor, tmp_path: Path) -> None:
    name = of_this_try("recorded")
    admin = newcomer.open("/admin/runs/shelltarget/add/")
    admin.locator("#id_tenant").select_option(index=1)
    admin.locator("#id_name").fill(name)
    admin.locator("#id_may_record").check()
    admin.locator("[name=_save]").click()
    admin.wait_for_url("**/admin/runs/shelltarget/")
    page = newcomer.open("/shells/")
    page.get_by_label("Where").select_option(name)
    page.get_by_label("Record it").check()
    page.get_by_role("button", name="Open a shell").click()
    page.wait_for_url("**/shells/shell_*/")
    in_control(page)
    expect(page.locator(".rec")).to_have_text("● REC")
    expect(page.locator(".rec")).to_have_attribute("title", "What this shell prints is recorded.")
    type_echo(page, "recorded")
    page.keyboard.type("exit\n")
    expect(page.locator("#shell [data-status=completed]").first).to_be_visible()
    page.reload()
    with page.expect_download() as news:
        page.get_by_role("link", name="Download").click()
    news.value.save_as(tmp_path / "shell.cast")
    head, *events = [json.loads(line) for line in (tmp_path / "shell.cast").read_text().splitlines()]
    assert head["version"] == 2
    assert "recorded-42" in "".join(text for _, kind, text in events if kind == "o")
    shells = newcomer.open("/shells/")
    expect(shells.locator("tbody tr").first.locator(".rec")).to_be_visible()
