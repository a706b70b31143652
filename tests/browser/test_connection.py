"""Each state of the connection pill on the run page, in a real Chromium; Stop stays in reach in all of them."""

import re

import pytest
from django.contrib.sessions.models import Session
from django.test import Client
from playwright.sync_api import Page, expect

from runs import selectors
from runs.models import Membership
from runs.ringing import ring_now
from runs.supervisor.keeping import keep_once
from tests.browser.chromium import Visitor
from tests.browser.line import Line
from tests.browser.test_run_page import address, is_live, words_of
from tests.runs.pages.scenes import Scene
from tests.runs.retention.conftest import set_limits

__all__ = ["set_limits"]  # the fixture


def pill_of(page: Page):
    return page.locator("#connection:not([hidden]) [data-slot=text]")


def open_with_line(visitor: Visitor, scene: Scene) -> tuple[Page, Line]:
    """Open the run's page, live, with its line in our hand."""
    page = visitor.open("/connection/")
    line = Line(page)
    page.goto(visitor.base_url + address(scene.run))
    is_live(page)
    return page, line


@pytest.fixture
def scene(owner) -> Scene:
    return Scene(owner, ring=ring_now)


def test_what_was_missed_is_caught_up_with_and_counted(owner, scene, visit):
    step_id, message_id = scene.model("", is_open=True)
    visitor = visit(owner)
    visitor.expect("ERR_INTERNET_DISCONNECTED")
    page, line = open_with_line(visitor, scene)
    visitor.context.set_offline(True)
    expect(pill_of(page)).to_contain_text("Offline. Runs go on at the server.")
    scene.say(step_id, message_id, *(f"w{n} " for n in range(300)))
    line.is_holding = True
    visitor.context.set_offline(False)
    expect(pill_of(page)).to_have_text("Catching up: 0 of 300 events")
    expect(page.locator("#stop")).to_be_visible()
    line.release()
    is_live(page)
    expect(page.locator(".words").last).to_contain_text("w299")
    assert words_of(page) == "".join(f"w{n} " for n in range(300))


def test_how_far_behind_it_is(owner, scene, visit):
    step_id, message_id = scene.model("", is_open=True)
    page, line = open_with_line(visit(owner), scene)
    line.is_late = True
    scene.say(step_id, message_id, "late ")
    expect(pill_of(page)).to_have_text(re.compile(r"Live · \d+ h \d\d min behind"))
    line.is_late = False
    scene.say(step_id, message_id, "again")
    expect(pill_of(page)).not_to_contain_text(" h ")


@pytest.mark.parametrize(
    ("code", "reason", "says"),
    [
        (4013, "database_away", "Reconnecting… Runs go on at the server."),
        (4030, "server_restart", "The server restarts."),
    ],
)
def test_a_cut_says_when_the_next_try_is_and_lets_one_try_now(owner, scene, visit, code, reason, says):
    page, line = open_with_line(visit(owner), scene)
    line.close(code, reason, retry_after=500)
    expect(pill_of(page)).to_contain_text(says)
    expect(pill_of(page)).to_contain_text(re.compile(r"Next try in [45]\d\d s\."))
    expect(page.locator("#announce")).to_contain_text(says)
    scene.tool()
    page.get_by_role("button", name="Retry now").click()
    is_live(page)
    expect(page.locator("#cards")).to_contain_text("search_documents")
    expect(page.locator("#announce")).to_contain_text("Live again.")


def test_a_quick_reconnect_is_nobodys_business(owner, scene, visit):
    page, line = open_with_line(visit(owner), scene)
    page.evaluate("""() => {
      const text = document.querySelector("#connection [data-slot=text]");
      window.seen = [];
      const note = () => window.seen.push(text.textContent);
      new MutationObserver(note).observe(text, { childList: true, characterData: true });
    }""")
    line.sockets[-1].close(code=1012)  # as a proxy that is reloaded does: no closing frame, no delay
    scene.tool()
    expect(page.locator("#cards")).to_contain_text("search_documents")
    is_live(page)
    assert not [text for text in page.evaluate("window.seen") if "Reconnecting" in text or "Connecting" in text]


def test_without_sockets_it_polls_and_says_why(owner, scene, visit):
    visitor = visit(owner)
    page, line = open_with_line(visitor, scene)
    line.is_refusing = True
    line.sockets[-1].close(code=1013)
    expect(pill_of(page)).to_contain_text("No live connection; refreshing every 5 s.", timeout=120_000)
    scene.tool()
    expect(page.locator("#cards")).to_contain_text("search_documents")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    scene.stopped()
    expect(page.locator(".run-meta .badge")).to_have_text("Stopped")
    page.get_by_role("link", name="Why?").click()
    expect(page.locator("[data-check=server]")).to_contain_text("ms.")
    expect(page.locator("[data-check=socket]")).to_contain_text("It does not open")


def test_a_place_that_was_trimmed_is_said_and_the_page_is_whole(owner, scene, visit, set_limits):
    set_limits(events_per_stream=50, checkpoint_events=20)
    step_id, message_id = scene.model("", is_open=True)
    scene.say(step_id, message_id, "before ")
    visitor = visit(owner)
    visitor.expect("ERR_INTERNET_DISCONNECTED")
    page, _line = open_with_line(visitor, scene)
    visitor.context.set_offline(True)
    expect(pill_of(page)).to_contain_text("Offline")
    scene.say(step_id, message_id, *(f"w{n} " for n in range(150)))
    keep_once()
    assert scene.reload().floor_seq > 100
    visitor.context.set_offline(False)
    expect(pill_of(page)).to_have_text("Older detail was trimmed; the page was rebuilt from the saved state.")
    expect(page.locator(".words").last).to_contain_text("w149")
    view, _seq = selectors.view_of(scene.reload())
    assert words_of(page) == view["messages"][0]["text"]


def test_who_was_signed_out_is_told_and_stops_after_signing_in_anew(owner, scene, visit):
    visitor = visit(owner)
    page = visitor.open(address(scene.run))
    is_live(page)
    other = visitor.open("/documents/")
    other.locator("summary").first.click()
    other.get_by_role("button", name="Sign out").click()
    expect(other.locator("h1")).to_have_text("Sign in")
    expect(pill_of(page)).to_contain_text("Signed out.")
    link = page.get_by_role("link", name="Sign in")
    expect(link).to_have_attribute("href", f"/login/?next={address(scene.run)}")
    page.locator("#stop").click()
    expect(page.locator("#stop-line")).to_have_text(
        "You are signed out, so nothing was stopped. Sign in and press Stop again."
    )
    expect(page.get_by_role("alert")).to_contain_text("nothing was stopped")
    assert scene.reload().status == "running"
    client = Client()
    client.force_login(owner.user)
    cookies = {"sessionid": client.cookies["sessionid"].value, "csrftoken": "n" * 32}  # a sign-in makes both anew
    visitor.context.add_cookies([{"name": n, "value": v, "url": visitor.base_url} for n, v in cookies.items()])
    page.locator("#stop").click()
    expect(page.locator("#stop-line")).to_contain_text("Your stop is recorded.")
    assert scene.reload().status == "cancel_requested"


@pytest.mark.parametrize(
    ("way", "says"),
    [("session", "Signed out."), ("deactivation", "Signed out."), ("membership", "You may no longer watch this.")],
)
def test_access_that_ends_is_said_on_the_open_page(owner, scene, visit, way, says):
    visitor = visit(owner)
    visitor.expect("403 (Forbidden)")
    page = visitor.open(address(scene.run))
    is_live(page)
    if way == "session":
        Session.objects.all().delete()
    elif way == "deactivation":
        type(owner.user).objects.update(is_active=False)
    else:
        Membership.objects.all().delete()
    expect(pill_of(page)).to_contain_text(says)
    page.locator("#stop").click()
    expect(page.locator("#stop-line")).to_contain_text("refused" if way == "membership" else "You are signed out")
    assert scene.reload().status == "running"


def test_a_frozen_tab_comes_back_with_everything_and_keeps_its_place(owner, scene, visit):
    step_id, message_id = scene.model("line\n" * 200, is_open=True)
    visitor = visit(owner)
    page = visitor.open(address(scene.run))
    is_live(page)
    page.evaluate("scrollTo(0, 600)")
    chrome = visitor.context.new_cdp_session(page)
    chrome.send("Page.setWebLifecycleState", {"state": "frozen"})
    scene.say(step_id, message_id, *(f"w{n} " for n in range(100)))
    chrome.send("Page.setWebLifecycleState", {"state": "active"})
    expect(page.locator(".words").last).to_contain_text("w99")
    is_live(page)
    assert page.evaluate("scrollY") == 600
    assert words_of(page) == "line\n" * 200 + "".join(f"w{n} " for n in range(100))
