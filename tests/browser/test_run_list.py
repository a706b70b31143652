"""The run list in a real Chromium: rows change in place, new ones wait, chosen ones stop, filters keep the address."""

from django.contrib.sessions.models import Session
from playwright.sync_api import Page, expect

from runs.ids import text_id
from runs.models import Run
from runs.ringing import ring_now
from tests.builders import a_run
from tests.runs.pages.scenes import Scene, every_state
from tests.stack import wait_until

ROW_IDS = "(rows) => rows.map((r) => r.id)"


def is_live(page: Page) -> None:
    expect(page.locator("#feed-pill")).to_contain_text("Live")


def row_of(page: Page, run: Run):
    return page.locator(f"#{text_id('run', run.pk)}")


def place_of(page: Page, run: Run) -> float:
    box = row_of(page, run).bounding_box()
    assert box is not None
    return box["y"]


def test_a_row_changes_in_place_and_a_new_run_waits_behind_a_button(owner, visit):
    scene, other = Scene(owner, ring=ring_now, title="first"), a_run(owner, title="second")
    page = visit(owner).open("/runs/")
    is_live(page)
    before = page.locator("#run-rows tr").evaluate_all(ROW_IDS)
    place = place_of(page, scene.run)
    late = Scene(owner, ring=ring_now, title="third")
    late.tool()
    scene.complete("done")
    expect(row_of(page, scene.run)).to_contain_text("Completed")
    bar = page.locator("#new-rows")
    expect(bar).to_contain_text("1 new run, show")
    expect(bar.locator("a")).to_be_visible()
    assert page.locator("#run-rows tr").evaluate_all(ROW_IDS) == before
    assert place_of(page, scene.run) == place, "nothing may move under the cursor"
    bar.locator("a").click()
    expect(page.locator("#run-rows tr").first).to_contain_text("third")
    expect(row_of(page, other)).to_be_visible()


def test_chosen_runs_stop_together_and_their_table_goes_on_living(owner, visit):
    first, second, third = (Scene(owner, ring=ring_now, title=title) for title in ("one", "two", "three"))
    page = visit(owner).open("/runs/")
    is_live(page)
    button = page.locator("#stop-many button")
    expect(button).to_be_hidden()
    place = place_of(page, first.run)
    for scene in (first, second):
        row_of(page, scene.run).get_by_role("checkbox").check()
    expect(button).to_have_text("Stop 2 runs")
    assert place_of(page, first.run) == place, "nothing may move under the cursor"
    first.tool("read_document")  # the row changes while it is chosen
    first.tool("read_document", outcome=None)
    expect(row_of(page, first.run)).to_contain_text("read_document")
    expect(row_of(page, first.run).get_by_role("checkbox")).to_be_checked()
    third.complete("x")
    expect(row_of(page, third.run)).to_contain_text("Completed")
    expect(row_of(page, third.run).get_by_role("checkbox")).to_have_count(0)
    button.click()
    expect(page.locator("h1")).to_have_text("Stop of 2 runs")
    expect(page.get_by_role("alert")).to_contain_text("All stops are recorded.")
    is_live(page)
    second.stopped()
    expect(row_of(page, second.run)).to_contain_text("Stopped")
    expect(row_of(page, second.run)).to_contain_text("Recorded. No new step will start.")
    expect(row_of(page, first.run)).to_contain_text("Stopping…")


def test_all_of_a_page_are_chosen_at_once_by_the_keyboard(owner, visit):
    made = every_state(owner)
    page = visit(owner).open("/runs/")
    is_live(page)
    page.get_by_role("checkbox", name="Choose all runs of this page that can be stopped").focus()
    page.keyboard.press("Space")
    expect(page.locator("#stop-many button")).to_have_text("Stop 4 runs")  # queued, running, waiting, retried
    page.keyboard.press("Space")
    expect(page.locator("#stop-many button")).to_be_hidden()
    assert len(made) == page.locator("#run-rows tr").count()


def test_stopping_many_works_without_javascript(owner, visit):
    run = a_run(owner, title="never began")
    page = visit(owner, java_script_enabled=False).open("/runs/")
    page.get_by_role("checkbox").first.check()
    page.get_by_role("button", name="Stop the chosen runs").click()
    expect(page.locator("#run-rows")).to_contain_text("Stopped at once.")
    run.refresh_from_db()
    assert run.status == "cancelled"


def test_a_run_that_leaves_the_filter_stays_until_the_next_look(owner, visit):
    scene = Scene(owner, ring=ring_now)
    page = visit(owner).open("/runs/?show=running")
    is_live(page)
    scene.complete("x")
    expect(page.locator("#run-rows tr")).to_have_class("row-left row-changed")


def test_a_filter_swaps_the_list_and_the_address_and_back_works(owner, visit):
    made = every_state(owner)
    page = visit(owner).open("/runs/")
    page.get_by_role("link", name="Failed").click()
    expect(page.locator("#run-rows tr")).to_have_count(1)
    assert page.url.endswith("?show=failed")
    page.go_back()
    expect(page.locator("#run-rows tr")).to_have_count(len(made))
    is_live(page)


def test_without_a_socket_the_list_asks_every_few_seconds_and_says_why(owner, visit):
    scene = Scene(owner)
    visitor = visit(owner)
    visitor.expect("WebSocket")
    page = visitor.context.new_page()
    page.route_web_socket("**/ws/v1/runs/", lambda socket: socket.close(code=1013))
    page.goto(visitor.base_url + "/runs/?show=running")
    expect(page.locator("#feed-pill")).to_contain_text("refreshing every 5 s")
    expect(page.get_by_role("link", name="Why?")).to_have_attribute("href", "/connection/")
    scene.complete("x")  # it leaves the filter, and is looked at all the same
    expect(page.locator("#run-rows tr").first).to_contain_text("Completed")


def test_a_cut_is_told_after_a_while_and_tried_again_on_a_click(owner, visit):
    scene = Scene(owner)
    visitor = visit(owner)
    page = visitor.context.new_page()
    opened, allowed = [], [True]

    def route(socket):
        if not allowed[0]:
            socket.close(code=1013)
            return
        opened.append(socket)
        socket.connect_to_server()

    page.route_web_socket("**/ws/v1/runs/", route)
    page.goto(visitor.base_url + "/runs/")
    is_live(page)
    allowed[0] = False
    opened[-1].close(code=4030)
    pill = page.locator("#feed-pill")
    expect(pill).to_contain_text("The server restarts.")
    expect(pill).to_contain_text("refreshing every 5 s")
    scene.complete("x")
    allowed[0] = True
    is_live(page)
    expect(page.locator("#run-rows tr").first).to_contain_text("Completed")


def test_offline_says_so_and_coming_back_looks_again(owner, visit):
    scene = Scene(owner)
    visitor = visit(owner)
    visitor.expect("ERR_INTERNET_DISCONNECTED")
    page = visitor.open("/runs/")
    is_live(page)
    visitor.context.set_offline(True)
    expect(page.locator("#feed-pill")).to_contain_text("Offline. Runs go on at the server.")
    scene.complete("x")
    visitor.context.set_offline(False)
    is_live(page)
    expect(page.locator("#run-rows tr").first).to_contain_text("Completed")


def test_a_session_that_ends_is_said_with_the_way_back(owner, visit):
    page = visit(owner).open("/runs/?show=mine")
    is_live(page)
    Session.objects.all().delete()
    expect(page.locator("#feed-pill")).to_contain_text("Signed out.")
    wait_until(lambda: page.get_by_role("link", name="Sign in").is_visible(), what="the way back")
    assert page.get_by_role("link", name="Sign in").get_attribute("href") == "/login/?next=/runs/%3Fshow%3Dmine"


def test_ages_are_in_the_readers_words_and_zone(owner, visit):
    a_run(owner)
    page = visit(owner, timezone_id="Asia/Tokyo").open("/runs/")
    age = page.locator("#run-rows time").first
    expect(age).not_to_contain_text("UTC")
    assert "GMT+9" in (age.get_attribute("title") or "") or "Japan" in (age.get_attribute("title") or "")
