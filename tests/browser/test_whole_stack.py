"""The newcomer's path in a real Chromium, against the whole installation: nothing here is played by the test."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.chromium import Visitor
from tests.stack import LiveStack, wait_until

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(420)]


def stored_texts(stack: LiveStack, run_id: str) -> list[str]:
    """Join the stored deltas of each text, as they are in the database."""
    texts: dict[str, str] = {}
    for event in stack.events(run_id):
        if event["type"] == "text.delta":
            message = event["data"]["message_id"]
            texts[message] = texts.get(message, "") + event["data"]["delta"]
    return list(texts.values())


def shown_texts(page: Page) -> list[str]:
    """Read every text of the page."""
    return page.locator(".message[data-message] .words").all_text_contents()


def run_id_of(page: Page) -> str:
    run_id = page.locator("#run").get_attribute("data-run")
    assert run_id
    return run_id


def test_a_question_to_the_sample_documents_becomes_a_report(newcomer: Visitor, stack: LiveStack) -> None:
    page = newcomer.open("/runs/new/?agent=researcher")
    page.get_by_role("button", name="Load sample documents").click()
    expect(page.locator(".doc-picks label").first).to_be_visible()
    page.locator("textarea[name=f-question]").fill("How often may an invoice be sent twice?")
    page.get_by_role("button", name="Start", exact=True).last.click()
    page.wait_for_url("**/runs/run_*/")
    run_id = run_id_of(page)
    expect(page.locator(".words").first).not_to_be_empty(timeout=120_000)
    page.close()  # closing a page is not stopping
    elsewhere = newcomer.open(f"/runs/{run_id}/")
    expect(elsewhere.locator(".badge[data-status=completed]").first).to_be_visible(timeout=300_000)
    expect(elsewhere.locator("#artifacts .prose h1").first).to_be_visible()
    assert sorted(shown_texts(elsewhere)) == sorted(stored_texts(stack, run_id))
    reloaded = newcomer.open(f"/runs/{run_id}/")
    assert sorted(shown_texts(reloaded)) == sorted(stored_texts(stack, run_id))


def test_a_stream_in_two_tabs_a_reload_and_a_stop_end_with_the_stored_text(newcomer: Visitor, stack: LiveStack) -> None:
    run_id = stack.start("probe", {"key": "browser-stop", "n": 1_000_000, "rate": 100})["id"]
    first, second = newcomer.open(f"/runs/{run_id}/"), newcomer.open(f"/runs/{run_id}/")
    expect(first.locator(".words").first).not_to_be_empty()
    first.reload()
    seen = len(shown_texts(second)[0])
    wait_until(lambda: len(shown_texts(second)[0]) > seen, what="more text")
    second.locator("#stop").click()
    for page in (first, second):
        expect(page.locator(".badge[data-status=cancelled]").first).to_be_visible()
        expect(page.locator("#stop-line")).to_contain_text(f"By {stack.user}")
        expect(page.locator(".message .label").first).to_contain_text("Not a final answer.")
        assert shown_texts(page) == stored_texts(stack, run_id)


def test_a_chat_goes_with_its_page_and_a_reload_is_no_departure(newcomer: Visitor, stack: LiveStack) -> None:
    run_id = stack.start("probe_cancel", {"key": "browser-leave", "n": 1_000_000, "rate": 50})["id"]
    page = newcomer.open(f"/runs/{run_id}/")
    expect(page.locator(".words").first).not_to_be_empty()
    page.reload()
    expect(page.locator("#connection")).to_contain_text("Live")
    assert stack.run(run_id)["status"] == "running"
    page.close()
    run = stack.wait(run_id, "cancelled", seconds=40)
    assert run["cancel"]["reason"] == "client_gone"


def test_an_invoice_whose_answer_is_lost_is_being_verified_and_says_so(newcomer: Visitor, stack: LiveStack) -> None:
    stack.switch(never_answer=True, lookup_fails=True)
    try:
        page = newcomer.open("/runs/new/?agent=billing")
        page.locator("[name=f-customer]").fill("Miller & Sons")
        page.locator("[name=f-cents]").fill("1250")
        page.get_by_role("button", name="Start", exact=True).last.click()
        page.wait_for_url("**/runs/run_*/")
        expect(page.locator("#verifying")).to_be_visible(timeout=180_000)
        expect(page.locator("#verifying")).to_contain_text("create_invoice")
        expect(page.locator(".badge").first).to_have_text("Being verified")
    finally:
        stack.switch()
