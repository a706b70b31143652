"""The run list in a real Chromium: rows change in place, new ones wait, filters keep the address."""

from playwright.sync_api import Page, expect

from runs.ids import text_id
from runs.ringing import ring_now
from tests.builders import a_run
from tests.runs.pages.scenes import Scene, every_state


def is_live(page: Page) -> None:
    expect(page.locator("#feed-pill")).to_contain_text("Live")


def test_a_row_changes_in_place_and_a_new_run_waits_behind_a_button(owner, visit):
    scene, other = Scene(owner, ring=ring_now, title="first"), a_run(owner, title="second")
    page = visit(owner).open("/runs/")
    is_live(page)
    before = page.locator("#run-rows tr").evaluate_all("(rows) => rows.map((r) => r.id)")
    late = Scene(owner, ring=ring_now, title="third")
    late.tool()
    scene.complete("done")
    row = page.locator(f"#{text_id('run', scene.run.pk)}")
    expect(row).to_contain_text("Completed")
    bar = page.locator("#new-rows")
    expect(bar).to_contain_text("1 new run, show")
    assert page.locator("#run-rows tr").evaluate_all("(rows) => rows.map((r) => r.id)") == before
    bar.locator("a").click()
    expect(page.locator("#run-rows tr").first).to_contain_text("third")
    expect(page.locator(f"#{text_id('run', other.pk)}")).to_be_visible()


def test_a_run_that_leaves_the_filter_stays_until_the_next_look(owner, visit):
    scene = Scene(owner, ring=ring_now)
    page = visit(owner).open("/runs/?show=running")
    is_live(page)
    scene.complete("x")
    expect(page.locator("#run-rows tr")).to_have_class("row-left row-changed")


def test_a_filter_swaps_the_list_and_the_address_and_back_works(owner, visit):
    every_state(owner)
    page = visit(owner).open("/runs/")
    page.get_by_role("link", name="Failed").click()
    expect(page.locator("#run-rows tr")).to_have_count(1)
    assert page.url.endswith("?show=failed")
    page.go_back()
    expect(page.locator("#run-rows tr")).to_have_count(8)
    is_live(page)


def test_without_a_socket_the_list_asks_every_few_seconds(owner, visit):
    scene = Scene(owner)
    visitor = visit(owner)
    visitor.expect("WebSocket")
    page = visitor.context.new_page()
    page.route_web_socket("**/ws/v1/runs/", lambda socket: socket.close(code=1013))
    page.goto(visitor.base_url + "/runs/")
    expect(page.locator("#feed-pill")).to_contain_text("refreshing every 5 s")
    scene.complete("x")
    expect(page.locator("#run-rows tr").first).to_contain_text("Completed")


def test_ages_are_in_the_readers_words_and_zone(owner, visit):
    a_run(owner)
    page = visit(owner, timezone_id="Asia/Tokyo").open("/runs/")
    age = page.locator("#run-rows time").first
    expect(age).not_to_contain_text("UTC")
    assert "GMT+9" in (age.get_attribute("title") or "") or "Japan" in (age.get_attribute("title") or "")
