"""Pages through a real nginx: live with the documented lines, and without them polled, which the page says."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from runs.ringing import ring_now
from tests.browser.chromium import new_visitor
from tests.browser.test_run_page import address, is_live
from tests.proxies.nginx import documented, running_nginx, two_ports, without_upgrade
from tests.runs.pages.scenes import Scene
from tests.streaming.conftest import running_server
from tests.streaming.test_sockets import cookie_of


@pytest.fixture
def fronts(transactional_db: None, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The addresses of nginx as documented, and of one without the lines for WebSocket."""
    ports = two_ports()
    good, bare = (f"http://127.0.0.1:{port}" for port in ports)
    with running_server(tmp_path, OUTLIVE_BASE_URL=good, OUTLIVE_TRUSTED_ORIGINS=f"{good},{bare}") as site:
        servers = [documented(port=port, upstream=site.base) for port in ports]
        with running_nginx(tmp_path / "nginx", servers[0], without_upgrade(servers[1])):
            yield good, bare


def test_a_page_is_live_through_nginx_and_polls_without_the_upgrade_lines(owner, browser, fronts):
    good, bare = fronts
    session = cookie_of(owner).removeprefix("sessionid=")
    scene = Scene(owner, ring=ring_now, title="Behind a proxy")
    live, polled = (new_visitor(browser, base, session=session) for base in (good, bare))
    polled.expect("WebSocket")
    first, second = live.open(address(scene.run)), polled.open(address(scene.run))
    is_live(first)
    expect(second.locator("#connection")).to_contain_text("No live connection; refreshing every 5 s.", timeout=120_000)
    scene.tool()
    for page in (first, second):
        expect(page.locator("#cards")).to_contain_text("search_documents")
    second.locator("#stop").click()
    expect(second.locator("#stop")).to_have_text("Stopping…")
    scene.stopped()
    for page in (first, second):
        expect(page.locator(".run-meta .badge")).to_have_text("Stopped")
    second.get_by_role("link", name="Why?").click()
    expect(second.locator("[data-check=socket]")).to_contain_text("lets no WebSocket through")
    expect(second.locator("[data-check=stream]")).to_contain_text("Events come one by one")
    live.close()
    polled.close()
