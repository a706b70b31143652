"""An agent's shell in a real Chromium: who types is said, and a person takes it over and hands it back."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Visitor
from tests.browser.terminal import SECONDS, see, see_some
from tests.stack import LiveStack

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]

AGENTS = "An agent types here"
MINE = "You have taken over. The agent waits until you hand it back."
THEIRS = "demo has taken over. The agent waits until it is handed back."
# What the page has put into its polite region since we listen, in order.
LISTEN = """() => {
  const region = document.getElementById("announce");
  globalThis.heard = [];
  const hear = new MutationObserver(() => heard.push(region.textContent));
  hear.observe(region, { childList: true, characterData: true, subtree: true });
}"""


def is_said(page: Page, text: str, *, button: str) -> None:
    """Wait until the header says who types, and offers this one button."""
    expect(page.locator("#pilot")).to_have_text(text, timeout=SECONDS * 1000)
    others = {"Take control", "Release", "Hand it back to the agent"} - {button}
    expect(page.get_by_role("button", name=button, exact=True)).to_be_visible()
    for other in others:
        expect(page.get_by_role("button", name=other, exact=True)).to_be_hidden()


def to_the_button(page: Page, name: str) -> None:
    """Go there by Tab alone."""
    for _ in range(30):
        if page.evaluate("document.activeElement.textContent").strip() == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {name!r}")


def test_an_agents_shell_is_taken_over_and_handed_back_by_the_keyboard(newcomer: Visitor, stack: LiveStack) -> None:
    """Its second command waits for the hand-back; another window and the run's page see the same."""
    first = "until [ -e go-on ]; do sleep 0.05; done"
    run = stack.start("probe", {"key": "hand-back", "n": 0, "shell": [first, "echo agent-$((40+2))"], "ask": True})
    runs = newcomer.open(f"/runs/{run['id']}/")
    to_shell = runs.get_by_role("link", name="hand-back")
    expect(to_shell).to_be_visible(timeout=SECONDS * 1000)
    path = to_shell.get_attribute("href")
    assert path
    page, watching = newcomer.open(path), newcomer.open(path)
    for window in (page, watching):
        is_said(window, AGENTS, button="Take control")
    expect(page.locator("#announce")).to_have_role("status")
    expect(page.locator("#announce")).to_have_attribute("aria-live", "polite")
    see_some(page, first)  # it is running
    page.evaluate(LISTEN)
    page.keyboard.type("touch viewers\n")  # opening it is not taking it over

    page.keyboard.press("Control+Shift+L")
    to_the_button(page, "Take control")
    page.keyboard.press("Enter")
    is_said(page, MINE, button="Hand it back to the agent")
    is_said(watching, THEIRS, button="Take control")
    for window in (page, watching):
        window.set_viewport_size({"width": 390, "height": 800})  # a phone shows all of it
        assert window.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.getElementById('pilot'))")
        window.set_viewport_size({"width": 1280, "height": 800})
    expect(runs.get_by_text("demo has taken over the shell.")).to_be_visible()
    expect(page.locator("#terminal textarea")).to_be_focused()
    page.keyboard.press("Control+z")  # its command ends for the agent, and the prompt is ours
    page.keyboard.type("ls viewers; touch go-on; echo person-$((40+2))\n")
    see(page, "person-42")
    see_some(page, "cannot access 'viewers'")
    see(watching, "person-42")
    assert "agent-42" not in page.evaluate("document.body.innerText")

    page.keyboard.press("Control+Shift+L")
    to_the_button(page, "Hand it back to the agent")
    page.keyboard.press("Enter")
    is_said(page, AGENTS, button="Take control")
    is_said(watching, AGENTS, button="Take control")
    expect(page.locator("#take")).to_be_focused()  # the button that was pressed is gone
    expect(runs.get_by_text("demo has taken over the shell.")).to_be_hidden()
    assert page.evaluate("heard") == [MINE, AGENTS]
    for window in (page, watching):
        see(window, "agent-42")
    stack.wait(run["id"], "waiting")
    stack.stop(run["id"])
    for window in (page, watching):
        expect(window.locator("#ended")).to_contain_text("stopped with the run that began it", timeout=SECONDS * 1000)
    page.reload()
    expect(page.locator("#last-screen")).to_contain_text("agent-42")  # it is kept for a day
    page.get_by_role("link", name="hand-back").click()
    page.wait_for_url(f"**/runs/{run['id']}/")
