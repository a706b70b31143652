"""Going on with a conversation in a real Chromium."""

from playwright.sync_api import expect

from runs import services
from runs.models import Run
from runs.ringing import ring_now
from tests.browser.test_run_page import address, is_live
from tests.runs.pages.scenes import Scene


def a_chat(owner, prompt="What is it?"):
    run = services.create_run(actor=owner, agent="chat", input={"prompt": prompt}, on_disconnect="continue").run
    return Scene(owner, ring=ring_now, run=run)


def test_a_message_during_a_run_waits_and_its_run_opens_by_itself(owner, visit):
    scene = a_chat(owner)
    step_id, message_id = scene.model("", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    page.get_by_label("Your next message").fill("And then?")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#talk")).to_contain_text("Waits until this run has ended: And then?")
    is_live(page)
    scene.say(step_id, message_id, "It is so.")
    scene.finish(step_id, "It is so.")
    scene.complete("It is so.")
    following = address(Run.objects.get(turn=2))  # not in a callback of Playwright: that has a connection of its own
    page.wait_for_url(lambda url: url.endswith(following))
    expect(page.locator("h1")).to_have_text("And then?")
    page.locator(".said summary").click()
    expect(page.locator(".said")).to_contain_text("What is it?")
    expect(page.locator(".said")).to_contain_text("It is so.")


def test_what_is_being_typed_stays_when_the_run_ends(owner, visit):
    scene = a_chat(owner)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    expect(page.get_by_role("button", name="Stop this run and send")).to_be_visible()
    page.get_by_label("Your next message").fill("half a thought")
    scene.complete("done")
    expect(page.locator("#retry details")).to_have_count(1)
    expect(page.get_by_label("Your next message")).to_have_value("half a thought")
    expect(page.get_by_role("button", name="Stop this run and send")).to_be_hidden()
