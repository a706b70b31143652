"""The field's own faults in a real Chromium: doubled text, lost stops, a browser that has no connection left."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from playwright.sync_api import Page, expect

from runs.models import Run
from runs.ringing import ring_now
from tests.browser.line import Line
from tests.browser.test_run_page import address, is_live, words_of
from tests.runs.pages.scenes import Scene
from tests.stack import wait_until

WORDS = [f"w{n:03} " for n in range(400)]
PACE_SECONDS = 0.02  # between two words: some fifty a second, so that all of it takes ten seconds or so


class Author:
    """Writes the words into a run from a thread of its own, like a worker whose model streams."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.step_id, self.message_id = scene.model("", is_open=True)
        self.written = 0
        self.is_over = threading.Event()
        self.failures: list[BaseException] = []

    def write(self) -> None:
        """Write them all, then end the run."""
        try:
            for word in WORDS:
                if self.is_over.wait(PACE_SECONDS):
                    return
                self.scene.say(self.step_id, self.message_id, word)
                self.written += 1
            self.scene.finish(self.step_id, "".join(WORDS))
            self.scene.complete("".join(WORDS))
        except BaseException as error:
            self.failures.append(error)
        finally:
            connections.close_all()

    def reaches(self, count: int) -> None:
        """Wait until so many words are stored."""
        wait_until(lambda: self.written >= count or self.failures, seconds=60, what=f"word {count}")
        assert self.failures == []


@contextmanager
def writing(scene: Scene) -> Iterator[Author]:
    author = Author(scene)
    thread = threading.Thread(target=author.write)
    thread.start()
    try:
        yield author
    finally:
        author.is_over.set()
        thread.join()


def read_midway(page: Page) -> int:
    """Read the text as it stands: a prefix of the words, none twice. Returns how much of it is there."""
    text = words_of(page)
    assert "".join(WORDS).startswith(text), text[-200:]
    return len(text)


def test_b13_no_word_twice_after_reloads_a_cut_and_in_a_second_tab(owner, visit):
    scene = Scene(owner, ring=ring_now, title="Four hundred words")
    visitor = visit(owner)
    visitor.expect("ERR_INTERNET_DISCONNECTED")
    first = visitor.open(address(scene.run))
    is_live(first)
    with writing(scene) as author:
        author.reaches(60)
        wait_until(lambda: read_midway(first) > 0, what="the first words")
        author.reaches(80)
        first.reload()
        second = visitor.open(address(scene.run))
        author.reaches(160)
        read_midway(second)
        first.reload()
        author.reaches(220)
        read_midway(first)
        visitor.context.set_offline(True)
        author.reaches(300)
        seen = read_midway(first)
        visitor.context.set_offline(False)
        wait_until(lambda: read_midway(first) > seen, what="the rest after the cut")
        read_midway(second)
        for page in (first, second):
            expect(page.locator(".badge[data-status=completed]").first).to_be_visible(timeout=60_000)
            assert words_of(page).split() == [word.strip() for word in WORDS]
    second.reload()
    assert words_of(second) == "".join(WORDS)


def test_b26_seven_tabs_load_and_stop_although_a_browser_opens_six_connections(owner, visit):
    """A stream that held one of the six over HTTP/1.1 would let the seventh page, and each Stop, wait."""
    scenes = [Scene(owner, ring=ring_now, title=f"run {n}") for n in range(7)]
    visitor = visit(owner)
    pages = [visitor.open(address(scene.run)) for scene in scenes]
    for page in pages:
        is_live(page)
    for index in (6, 0):
        with pages[index].expect_response(lambda answer: answer.url.endswith("/stop/"), timeout=60_000) as answered:
            pages[index].locator("#stop").click()
        assert answered.value.status == 200
        assert scenes[index].reload().status == "cancel_requested"
    for n, scene in enumerate(scenes):
        assert scene.reload().status == ("cancel_requested" if n in (0, 6) else "running")
        scene.tool() if n not in (0, 6) else scene.stopped()
    for n, page in enumerate(pages):
        what = page.locator(".run-meta .badge") if n in (0, 6) else page.locator("#cards")
        expect(what).to_contain_text("Stopped" if n in (0, 6) else "search_documents")


def test_b07_a_stop_right_after_send_takes_effect(owner, visit):
    """Nobody works here, so each run is queued. The button is pressed as soon as it is there, script or none."""
    page = visit(owner).open("/runs/new/?agent=chat")
    for n in range(20):
        page.goto(page.url.split("/runs/")[0] + "/runs/new/?agent=chat")
        page.locator("textarea[name=f-prompt]").fill(f"Say hello {n}")
        page.get_by_role("button", name="Start", exact=True).last.click(no_wait_after=True)
        page.locator("#stop").click()
        expect(page.locator(".run-meta .badge")).to_have_text("Stopped")
        expect(page.locator("#stop")).to_be_hidden()
    assert list(Run.objects.values_list("status", flat=True)) == ["cancelled"] * 20


def test_b07_a_stop_whose_post_fails_says_so_and_works_again(owner, visit):
    scene = Scene(owner, ring=ring_now)
    step_id, _message = scene.model("words", is_open=True)
    visitor = visit(owner)
    visitor.expect("ERR_FAILED")
    visitor.expect("503")
    page = visitor.open(address(scene.run))
    is_live(page)
    fates = ["abort", "503"]

    def meet_its_fate(route: Any) -> None:
        fate = fates.pop(0) if fates else "pass"
        if fate == "abort":
            route.abort()
        elif fate == "503":
            route.fulfill(status=503, body="away")
        else:
            route.continue_()

    page.route("**/stop/", meet_its_fate)
    for left in (1, 0):
        page.locator("#stop").click()
        expect(page.locator("#stop")).to_have_text("Retry stop")
        expect(page.locator("#stop-line")).to_contain_text("We could not confirm that the server got your request.")
        assert len(fates) == left
        assert scene.reload().status == "running"
    page.locator("#stop").click()
    expect(page.locator("#stop")).to_have_text("Stopping…")
    wait_until(lambda: scene.reload().status == "cancel_requested", what="the stop")
    scene.abandon(step_id)
    scene.stopped()
    expect(page.locator(".run-meta .badge")).to_have_text("Stopped")


def test_b07_a_stop_after_the_end_shows_the_end(owner, visit):
    """The page has not heard of the end when Stop is pressed, and never would: its socket is dead without a word."""
    scene = Scene(owner, ring=ring_now)
    visitor = visit(owner)
    page = visitor.open("/connection/")
    line = Line(page)
    page.goto(visitor.base_url + address(scene.run))
    is_live(page)
    line.die()
    scene.complete("all done")
    page.locator("#stop").click()
    expect(page.locator("#stop-line")).to_have_text("It finished before your stop took effect.")
    expect(page.locator(".run-meta .badge")).to_have_text("Completed")
    expect(page.locator("#stop-line")).to_have_text("It finished before your stop took effect.")
    expect(page.locator("#stop")).to_be_hidden()
    assert scene.reload().status == "completed"
