"""Who watches a shell, on its page: named live, in one's own language, on a phone, and said to a screen reader."""

from django.test import Client
from playwright.sync_api import expect

from runs.access import Actor
from runs.ids import text_id
from runs.models import ShellViewer
from tests.browser.conftest import SignIn
from tests.builders import a_shell

LISTEN = """() => {
  const region = document.getElementById("announce");
  globalThis.heard = [];
  const hear = new MutationObserver(() => heard.push(region.textContent));
  hear.observe(region, { childList: true, characterData: true, subtree: true });
}"""


def test_who_watches_comes_and_goes_on_the_page(owner: Actor, teammate: Actor, visit: SignIn) -> None:
    address = f"/shells/{text_id('shell', a_shell(owner).pk)}/"
    other = visit(teammate).open(address)
    # Of a shell that nobody has taken, whoever may pilot it is in control by opening it; a teammate may only look.
    page = visit(owner).open(address)
    line = page.locator("#watching")
    expect(line).to_have_text(f"Watching: {teammate.user.username}")
    expect(other.locator("#watching")).to_be_hidden()  # only they themselves do
    assert ShellViewer.objects.get().user_id == teammate.user.pk
    page.evaluate(LISTEN)
    other.close()
    expect(line).to_be_hidden()
    again = visit(teammate, viewport={"width": 390, "height": 800}).open(address)
    expect(line).to_be_visible()
    name = teammate.user.username
    page.wait_for_function("heard.length === 2")
    assert page.evaluate("heard") == [f"{name}: watching no more.", f"{name}: now watching."]
    assert again.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_who_watches_is_there_without_a_script_and_in_chinese(
    owner: Actor, teammate: Actor, visit: SignIn, client: Client
) -> None:
    address = f"/shells/{text_id('shell', a_shell(owner).pk)}/"
    page = visit(teammate).open(address)
    expect(page.locator("#connection")).to_be_visible()
    visitor = visit(owner, java_script_enabled=False, locale="zh-CN")
    served = visitor.open(address)
    expect(served.locator("#watching")).to_have_text(f"正在查看：{teammate.user.username}")
