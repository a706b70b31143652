"""Retrying in a real Chromium: the button comes with the end, and every open tab goes over to the new attempt."""

from playwright.sync_api import expect

from runs.ringing import ring_now
from tests.browser.test_run_page import address, is_live, words_of
from tests.runs.pages.scenes import Scene


def test_the_form_comes_with_the_end_and_both_tabs_go_over_to_the_new_attempt(owner, visit):
    scene = Scene(owner, ring=ring_now, agent="billing")
    scene.model("Half of it.")
    visitor = visit(owner)
    mine, other = visitor.open(address(scene.run)), visitor.open(address(scene.run))
    is_live(mine)
    is_live(other)
    expect(mine.locator("#retry details")).to_have_count(0)
    scene.fail("model_unavailable", "The model did not answer.")
    mine.locator("#retry summary").click()
    mine.get_by_label("Why").fill("the model is back")
    mine.get_by_label("Do every step anew").check()
    mine.get_by_role("button", name="Start the new attempt").click()
    for page in (mine, other):
        expect(page.locator("[data-slot=attempt]")).to_have_text("Attempt 2, retry of 1 by owner: “the model is back”")
        expect(page.locator(".badge[data-status=queued]").first).to_be_visible()
        expect(page.locator("#run-error")).to_be_hidden()
        expect(page.locator("#retry details")).to_have_count(0)
        expect(page.locator("#cards > *")).to_have_count(0)
        expect(page.locator("#stop")).to_be_visible()
    again = Scene(owner, ring=ring_now, run=scene.reload())
    again.model("The whole of it.")
    again.complete("The whole of it.")
    for page in (mine, other):
        expect(page.locator(".badge[data-status=completed]").first).to_be_visible()
        assert words_of(page) == "The whole of it."


def test_after_a_stop_the_text_of_the_new_attempt_moves_again(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, _message = scene.model("before the stop", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    scene.abandon(step_id)
    scene.stopped()
    expect(page.locator(".badge[data-status=cancelled]").first).to_be_visible()
    again = scene.retry(owner)
    step_id, message_id = again.model("", is_open=True)
    again.say(step_id, message_id, "it moves")
    expect(page.locator(".words").last).to_have_text("it moves")
    expect(page.locator("#stop")).to_have_text("Stop")
    expect(page.locator("#stop-line")).to_be_hidden()
