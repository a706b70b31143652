"""What a person needs who does not see, point or bear motion: names, roles, contrast, focus, in every state."""

import pytest
from playwright.sync_api import expect

from runs.ringing import ring_now
from tests.browser.test_run_page import address, is_live
from tests.runs.pages.scenes import Scene, every_state
from tests.stack import wait_until

# What can be used has a name, no id stands twice, no reference leads nowhere.
FAULTS = """() => {
  const faults = [];
  const seen = (e) => e.checkVisibility({ visibilityProperty: true });
  const name = (e) => e.getAttribute("aria-label") || [...(e.labels ?? [])].map((l) => l.textContent).join("")
    || e.textContent || e.title || "";
  for (const e of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (seen(e) && !name(e).trim()) faults.push(`no name: ${e.outerHTML.slice(0, 100)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  for (const id of new Set(ids)) if (ids.filter((other) => other === id).length > 1) faults.push(`twice: #${id}`);
  for (const e of document.querySelectorAll("[aria-describedby], [aria-labelledby], label[for]")) {
    const named = e.getAttribute("aria-describedby") ?? e.getAttribute("aria-labelledby") ?? e.htmlFor;
    for (const id of named.split(/\\s+/)) if (!document.getElementById(id)) faults.push(`nowhere: ${id}`);
  }
  for (const svg of document.querySelectorAll("svg")) {
    if (svg.getAttribute("aria-hidden") !== "true") faults.push("an icon that is read");
  }
  if (document.querySelectorAll("h1:not(.prose h1)").length !== 1) faults.push("not one h1");
  if (!document.documentElement.lang) faults.push("no language");
  for (const e of document.querySelectorAll("[tabindex]")) if (e.tabIndex > 0) faults.push("a tab order of its own");
  return faults;
}"""

# WCAG 2 contrast of every text that is shown, against what lies behind it, once no colour is still on its way.
FAINT = """async () => {
  const moving = document.getAnimations().filter((a) => a instanceof CSSTransition);
  await Promise.allSettled(moving.map((a) => a.finished));
  const paint = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    paint.clearRect(0, 0, 1, 1);
    paint.fillStyle = colour;
    paint.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const behind = (e) => {
    if (!e) return read(getComputedStyle(document.body).backgroundColor);
    const own = read(getComputedStyle(e).backgroundColor);
    return own[3] === 1 ? own : over(own, behind(e.parentElement));
  };
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    const style = getComputedStyle(e);
    if (!texts.currentNode.data.trim() || !e.checkVisibility({ visibilityProperty: true })) continue;
    if (e.closest(".visually-hidden, .skip, script, style, option")) continue;
    const below = behind(e);
    const [a, b] = [light(over(read(style.color), below)), light(below)].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 600);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < (isLarge ? 3 : 4.5)) faint.push(`${ratio.toFixed(2)}: ${texts.currentNode.data.trim().slice(0, 40)}`);
  }
  return faint;
}"""
PAGES = ("/runs/", "/runs/new/?agent=researcher", "/documents/", "/connection/")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everything_has_a_name_and_can_be_read(owner, visit, scheme):
    places = [*PAGES, *(address(run) for run in every_state(owner).values())]
    page = visit(owner, color_scheme=scheme).open("/runs/")
    base = page.url.removesuffix("/runs/")
    for place in places:
        page.goto(base + place)
        assert page.evaluate(FAULTS) == [], place
        assert page.evaluate(FAINT) == [], (place, scheme)


def test_the_stream_is_busy_and_not_read_aloud_while_the_regions_beside_it_are(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, message_id = scene.model("", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    scene.say(step_id, message_id, "One sentence. ", "And another one")
    card = page.locator("#cards > *").last
    expect(card).to_contain_text("And another one")
    expect(card).to_have_attribute("aria-busy", "true")
    assert page.locator("#cards [aria-live], #cards [role=status], #cards [role=alert]").count() == 0
    region = page.locator("#announce")
    expect(region).to_have_attribute("aria-live", "polite")
    scene.finish(step_id, "One sentence. And another one")
    expect(region).to_contain_text("One sentence. And another one")
    expect(card).to_have_attribute("aria-busy", "false")


def test_texts_are_said_by_sentence_or_not_at_all_as_the_reader_likes_it(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, message_id = scene.model("", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    page.get_by_label("To a screen reader, say texts").select_option("sentence")
    scene.say(step_id, message_id, "It is done. ", "More to")
    expect(page.locator("#announce")).to_have_text("It is done.")
    scene.say(step_id, message_id, " come! ")
    expect(page.locator("#announce")).to_have_text("More to come!")
    page.get_by_label("To a screen reader, say texts").select_option("off")
    scene.finish(step_id, "It is done. More to come! ")
    scene.complete("x")
    expect(page.locator("#announce")).to_have_text("Completed.")
    page.reload()
    expect(page.get_by_label("To a screen reader, say texts")).to_have_value("off")


def test_a_stop_by_keyboard_keeps_the_focus_and_is_told_as_an_alert(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, _message = scene.model("words", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    page.locator("#stop").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#stop")).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#stop")).to_be_focused()
    scene.abandon(step_id)
    scene.stopped()
    expect(page.get_by_role("alert")).to_contain_text("Stopped.")
    expect(page.locator("#stop-line")).to_be_focused()


def test_nothing_turns_for_who_asked_for_less_motion(owner, visit):
    runs = every_state(owner)
    page = visit(owner, reduced_motion="reduce").open(address(runs["running"]))
    still = "() => [...document.querySelectorAll('*')].every((e) => getComputedStyle(e).animationName === 'none')"
    wait_until(lambda: page.evaluate(still), what="everything to stand still")
