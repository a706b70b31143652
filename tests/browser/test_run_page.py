"""The run page in a real Chromium; the test plays the worker, event by event."""

from typing import Any

from playwright.sync_api import Page, expect

from runs import selectors
from runs.ids import text_id
from runs.models import ControlConnection
from runs.ringing import ring_now
from tests.browser.reading import EXTRACT, EXTRACT_SERVED
from tests.builders import a_run
from tests.runs.pages.scenes import APPROVAL, Scene, every_state
from tests.stack import wait_until

PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def address(run: Any) -> str:
    return f"/runs/{text_id('run', run.pk)}/"


def words_of(page: Page) -> str:
    return page.locator(".message .words").last.text_content() or ""


def is_live(page: Page) -> None:
    expect(page.locator("#connection")).to_contain_text("Live")


def test_two_tabs_and_a_reload_show_the_stored_text(owner, visit):
    scene = Scene(owner, ring=ring_now, title="Count")
    step_id, message_id = scene.model("", is_open=True)
    visitor = visit(owner)
    first, second = visitor.open(address(scene.run)), visitor.open(address(scene.run))
    is_live(first)
    said = [f"word{n} " for n in range(60)]
    scene.say(step_id, message_id, *said[:20])
    expect(first.locator(".words").last).to_contain_text("word19")
    scene.say(step_id, message_id, *said[20:40])
    first.reload()
    scene.say(step_id, message_id, *said[40:])
    scene.finish(step_id, "".join(said))
    scene.complete("".join(said))
    for page in (first, second):
        expect(page.locator(".badge[data-status=completed]").first).to_be_visible()
        assert words_of(page) == "".join(said)
    view, _seq = selectors.view_of(scene.run)
    assert view["messages"][0]["text"] == "".join(said)


def test_on_the_click_the_text_stands_still_and_the_proof_comes_later(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, message_id = scene.model("", is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    scene.say(step_id, message_id, "before the stop ")
    expect(page.locator(".words").last).to_have_text("before the stop ")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    expect(page.locator("#stop")).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#stop")).to_be_focused()
    scene.say(step_id, message_id, "what came in between")
    expect(page.locator("#stop-line")).to_contain_text("No new step will start. Waiting for 1 step.")
    assert words_of(page) == "before the stop "
    page.locator("#stop").click(force=True)  # again: nothing happens, and nothing complains
    scene.abandon(step_id)
    scene.stopped()
    expect(page.locator(".badge[data-status=cancelled]").first).to_be_visible()
    expect(page.locator("#stop-line")).to_contain_text("By owner,")
    assert words_of(page) == "before the stop what came in between"
    expect(page.locator(".message .label")).to_contain_text("Not a final answer.")
    expect(page.locator("#receipt")).to_contain_text("dropped")
    expect(page.locator("#stop")).to_be_hidden()


def test_a_stop_that_could_not_be_sent_says_so_and_can_be_retried(owner, visit):
    scene = Scene(owner, ring=ring_now)
    scene.model("words", is_open=True)
    visitor = visit(owner)
    visitor.expect("ERR_FAILED")
    page = visitor.open(address(scene.run))
    is_live(page)
    page.route("**/stop/", lambda route: route.abort())
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Retry stop")
    expect(page.locator("#alert")).to_contain_text("The run may still be working.")
    assert scene.reload().status == "running"
    page.unroute("**/stop/")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    wait_until(lambda: scene.reload().status == "cancel_requested", what="the stop")


def test_a_lost_answer_to_a_stop_is_looked_up(owner, visit):
    scene = Scene(owner)
    scene.model("words", is_open=True)
    visitor = visit(owner)
    visitor.expect("ERR_FAILED")
    page = visitor.open(address(scene.run))
    is_live(page)

    def lose_the_answer(route: Any) -> None:
        route.fetch()
        route.abort()

    page.route("**/stop/", lose_the_answer)
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    wait_until(lambda: scene.reload().status == "cancel_requested", what="the stop")
    page.unroute_all(behavior="wait")  # the answer may still be under way to us


def test_the_shortcut_stops(owner, visit):
    scene = Scene(owner)
    scene.model("words", is_open=True)
    page = visit(owner).open(address(scene.run))
    page.keyboard.press("Escape")
    page.keyboard.press("Control+.")
    expect(page.locator("#stop")).to_have_text("Stopping…")
    wait_until(lambda: scene.reload().status == "cancel_requested", what="the stop")


def test_stop_works_without_javascript(owner, visit):
    run = a_run(owner, title="never began")
    page = visit(owner, java_script_enabled=False).open(address(run))
    page.locator("#stop").click()
    expect(page.locator("h1")).to_have_text("never began")
    expect(page.locator(".run-meta .badge")).to_have_text("Stopped")


def test_another_tab_shows_the_same_stop(owner, operator, visit):
    scene = Scene(owner, ring=ring_now)
    scene.model("words", is_open=True)
    mine, theirs = visit(owner).open(address(scene.run)), visit(operator).open(address(scene.run))
    is_live(mine)
    is_live(theirs)
    theirs.locator("#stop").click()
    expect(mine.locator("#stop")).to_have_text("Stopping…")
    expect(mine.locator("#stop-line")).to_contain_text("Recorded")


def test_what_the_page_builds_is_what_the_server_renders(owner, visit):
    """The law of the two renderers: each state, built event by event, equals the page that is loaded afterwards."""
    for name, run in every_state(owner).items():
        page = visit(owner).open(address(run))
        built = page.evaluate(EXTRACT)
        served = page.evaluate(EXTRACT_SERVED)
        assert built == served, name
        page.evaluate("document.querySelectorAll('#steps > *, #cards > *').forEach((e) => e.remove())")
        rebuilt = page.evaluate(REBUILD)
        assert rebuilt == served, name


REBUILD = (
    """async () => {
      const { Painter } = await import("/static/runs/painter.js");
      const { readJson } = await import("/static/runs/dom.js");
      new Painter(document.getElementById("run"), { words: readJson("words"), onPainted() {} }).paint(readJson("view"));
      return ("""
    + EXTRACT
    + ")(); }"
)


def test_a_time_that_was_running_stands_still_although_it_says_the_same(owner, visit):
    """A step that ends in the second that its running time shows."""
    page = visit(owner).open(address(Scene(owner).run))
    left = page.evaluate("""async () => {
      const { setText } = await import("/static/runs/dom.js");
      const holder = document.createElement("span");
      holder.innerHTML = "<time datetime='2026-01-01T00:00:00Z' data-style='since'>21 s</time>";
      setText(holder, "21 s");
      return [holder.textContent, holder.childElementCount];
    }""")
    assert left == ["21 s", 0]


def test_a_question_appears_is_answered_and_goes(owner, visit):
    scene = Scene(owner, ring=ring_now, agent="assistant")
    page = visit(owner).open(address(scene.run))
    is_live(page)
    scene.ask("Send this mail?", APPROVAL)
    form = page.locator("form[data-answer]")
    expect(form).to_contain_text("Send this mail?")
    expect(page.locator("#asks")).to_be_visible()
    form.locator("textarea").fill("with care")
    form.get_by_role("button", name="Yes").click()
    expect(page.locator(".answer-value")).to_contain_text('"approve": true')
    expect(page.locator("form[data-answer]")).to_have_count(0)


def test_an_artifact_appears_with_its_preview(owner, visit):
    scene = Scene(owner, ring=ring_now)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    scene.artifact(content=b"# Findings\n\n- one")
    expect(page.locator("#artifacts .prose h1")).to_have_text("Findings")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "report.md"


def test_hostile_words_stay_words(owner, visit):
    hostile = "<img src=x onerror='document.title=1'>\u2028</script>"
    scene = Scene(owner, ring=ring_now, title=hostile)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    scene.tool(arguments={"q": hostile}, value=hostile)
    scene.model(hostile, label=hostile)
    expect(page.locator(".words").last).to_have_text(hostile)
    assert page.locator("main img").count() == 0


def test_the_page_of_a_chat_is_a_control_connection(owner, visit):
    scene = Scene(owner, agent="chat", on_disconnect="grace", grace_seconds=60.0)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    assert ControlConnection.objects.filter(run=scene.run, is_live=True).count() == 1
    page.close()
    wait_until(lambda: not ControlConnection.objects.filter(is_live=True).exists(), what="the loss of the page")


def test_offline_says_so_and_leaves_stop_in_reach(owner, visit):
    scene = Scene(owner, ring=ring_now)
    visitor = visit(owner)
    visitor.expect("ERR_INTERNET_DISCONNECTED")
    page = visitor.open(address(scene.run))
    is_live(page)
    visitor.context.set_offline(True)
    expect(page.locator("#connection")).to_contain_text("Offline")
    expect(page.locator("#stop")).to_be_visible()
    scene.tool()
    visitor.context.set_offline(False)
    is_live(page)
    expect(page.locator("#cards")).to_contain_text("search_documents")


def test_new_output_never_pulls_a_reader_down(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, message_id = scene.model("line\n" * 120, is_open=True)
    page = visit(owner).open(address(scene.run))
    is_live(page)
    assert page.evaluate("scrollY") == 0
    scene.say(step_id, message_id, "more\n" * 40)
    expect(page.locator("#jump")).to_be_visible()
    assert page.evaluate("scrollY") == 0
    page.locator("#jump").click()
    expect(page.locator("#jump")).to_be_hidden()
    # The policy forbids eval, which Playwright's own waiting needs.
    wait_until(lambda: page.evaluate("scrollY") > 500, what="the way down")
    scene.say(step_id, message_id, "even more\n" * 40)
    below = "document.getElementById('output').getBoundingClientRect().bottom - innerHeight"
    expect(page.locator(".words").last).to_contain_text("even more")
    wait_until(lambda: page.evaluate(below) < 120, what="following the end")


def test_on_a_phone_stop_stays_at_the_bottom_and_nothing_is_wider_than_the_screen(owner, visit):
    for name, run in every_state(owner).items():
        page = visit(owner, **PHONE | {"viewport": {"width": 360, "height": 740}}).open(address(run))
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        if name in ("queued", "running", "waiting"):
            box = page.locator("#stop").bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 740
            assert box["height"] >= 44


def test_in_chinese_the_live_words_are_chinese(owner, visit):
    scene = Scene(owner)
    scene.model("words", is_open=True)
    visitor = visit(owner, locale="zh-CN")
    page = visitor.open(address(scene.run))
    expect(page.locator("#connection")).to_contain_text("实时")
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("正在停止…")
    expect(page.locator(".badge").first).to_have_text("正在停止…")
    wait_until(lambda: scene.reload().status == "cancel_requested", what="the stop")
