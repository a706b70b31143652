"""The forms in a real Chromium: start a run, bring documents, sign in, change the language."""

from django.contrib.auth.hashers import PBKDF2PasswordHasher
from playwright.sync_api import expect

from runs.models import Document, Run
from tests.browser.chromium import new_visitor
from tests.stack import wait_until

NOTES = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"The depot opens at nine."}


def test_documents_are_added_without_leaving_the_page(owner, visit):
    page = visit(owner).open("/runs/new/?agent=researcher")
    key = page.locator("input[name=key]").input_value()
    page.locator("textarea[name=f-question]").fill("When does the depot open?")
    page.locator("#files").set_input_files([NOTES])
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.locator(".doc-picks input[type=checkbox]")).to_be_checked()
    page.get_by_role("button", name="Load sample documents").click()
    wait_until(lambda: page.locator(".doc-picks label").count() > 1, what="the samples")
    expect(page.locator("textarea[name=f-question]")).to_have_value("When does the depot open?")
    assert page.locator("input[name=key]").input_value() == key
    assert Document.objects.filter(name="notes.txt").count() == 1


def test_a_double_click_starts_one_run_and_back_finds_it_again(owner, visit):
    page = visit(owner).open("/runs/new/?agent=chat")
    page.locator("textarea[name=f-prompt]").fill("Say hello")
    page.get_by_role("button", name="Start", exact=True).last.dblclick()
    expect(page.locator("h1")).to_have_text("Say hello")
    address = page.url
    page.go_back()
    page.get_by_role("button", name="Start", exact=True).last.click()
    page.wait_for_url(address)
    assert Run.objects.count() == 1


def test_enter_in_a_text_field_starts_and_does_not_upload(owner, visit):
    page = visit(owner).open("/runs/new/?agent=billing")
    page.locator("input[name=f-cents]").fill("5")
    page.locator("textarea[name=f-customer], input[name=f-customer]").fill("Miller")
    page.locator("input[name=f-cents]").press("Enter")
    page.wait_for_url("**/runs/run_*/")
    assert Run.objects.get().input["cents"] == 5


def test_a_wrong_field_is_named_next_to_it(owner, visit):
    visitor = visit(owner)
    visitor.expect("400 (Bad Request)")
    page = visitor.open("/runs/new/?agent=billing")
    page.locator("textarea[name=f-customer], input[name=f-customer]").fill("Miller")
    page.locator("input[name=f-cents]").fill("5")
    page.locator("input[name=f-currency]").fill("euros")
    page.get_by_role("button", name="Start", exact=True).last.click()
    expect(page.locator("#error-f-currency")).to_be_visible()
    expect(page.locator("input[name=f-cents]")).to_have_value("5")


def test_a_document_is_deleted_in_place(owner, visit):
    page = visit(owner).open("/documents/")
    page.locator("#files").set_input_files([NOTES])
    page.get_by_role("button", name="Upload", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("1 document is here now.")
    page.locator("summary[aria-label='Delete notes.txt']").click()
    page.get_by_role("button", name="Delete it").click()
    expect(page.locator("#documents")).to_contain_text("No documents yet")


def test_the_demo_run_starts_with_one_click(owner, visit):
    page = visit(owner).open("/runs/")
    page.get_by_role("button", name="Start demo run").click()
    page.wait_for_url("**/runs/run_*/")
    assert Document.objects.exists()


def test_signing_in_with_the_keyboard_alone(owner, browser, web):
    # The web process knows only the real hash, not the cheap one of the tests.
    owner.user.password = PBKDF2PasswordHasher().encode("a long password 1", "salt")
    owner.user.save(update_fields=["password"])
    visitor = new_visitor(browser, web)
    page = visitor.open("/runs/")
    page.keyboard.type("owner")
    page.keyboard.press("Tab")
    page.keyboard.type("a long password 1")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Runs")
    visitor.close()


def test_the_language_changes_on_every_page(owner, visit):
    page = visit(owner).open("/documents/")
    page.locator("#language").select_option("zh-hans")
    expect(page.locator("h1")).to_have_text("文档")
    page.get_by_role("link", name="运行", exact=True).click()
    expect(page.locator("h1")).to_have_text("运行")


def test_the_first_tab_stop_leads_to_the_content(owner, visit):
    page = visit(owner).open("/runs/")
    page.keyboard.press("Tab")
    skip = page.locator(".skip")
    expect(skip).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_no_page_is_wider_than_a_small_phone_and_targets_are_large_enough(owner, visit):
    small = """() => [...document.querySelectorAll(
        "main a.button, main button, .nav a, .filters a, input:not([type=hidden]), select")]
      .filter((e) => e.offsetParent && !e.matches(".visually-hidden, .link-button, [type=checkbox], [type=radio]"))
      .filter((e) => e.getBoundingClientRect().height < 43.5).map((e) => e.outerHTML.slice(0, 120))"""
    phone = visit(owner, viewport={"width": 360, "height": 740})
    for path in ("/runs/", "/runs/new/?agent=researcher", "/runs/new/?agent=assistant", "/documents/", "/connection/"):
        page = phone.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        assert page.evaluate(small) == [], path
