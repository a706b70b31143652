"""`outlive doctor` through a real nginx: content with the documented one, and right about what is wrong with others."""

from dataclasses import replace
from pathlib import Path

import pytest

from runs.access import Actor
from tests.proxies.conftest import Fronts
from tests.proxies.nginx import documented, running_nginx
from tests.runs.cli.conftest import Ran
from tests.runs.cli.test_real_server import outlive
from tests.streaming.conftest import Site, free_port, token_of

pytestmark = pytest.mark.django_db(transaction=True)


def verdicts(ran: Ran) -> dict[str, str]:
    """What each check came to, without those that are well."""
    found = {row["check"]: row["verdict"] for row in ran.rows if row["object"] == "finding"}
    return {check: verdict for check, verdict in found.items() if verdict != "ok"}


def beside(site: Site, tmp_path: Path, change: str) -> tuple[Site, str]:
    """Another front of the same server: the documented one with one line more."""
    port = free_port()
    server = documented(port=port, upstream=site.base).replace("{", f"{{\n{change}", 1)
    return replace(site, base=f"http://127.0.0.1:{port}"), server


def test_the_documented_nginx_has_nothing_wrong(fronts: Fronts, owner: Actor) -> None:
    ran = outlive(fronts.nginx, token_of(owner), "doctor", "--idle", "1", "--json")
    assert (ran.code, verdicts(ran)) == (0, {})
    limits = {row["name"]: row["value"] for row in ran.rows if row["object"] == "limit"}
    assert limits["lease_seconds"] == 5
    assert limits["stop_deadline_seconds"] == 10


def test_limits_that_were_changed_show_their_default(fronts: Fronts, owner: Actor) -> None:
    ran = outlive(fronts.nginx, token_of(owner), "doctor")
    assert ran.code == 0, ran.out
    assert "OUTLIVE_LEASE_SECONDS=5\n" in ran.out
    assert "OUTLIVE_DRAIN_SECONDS=7  (default 20)\n" in ran.out


def test_a_missing_upgrade_is_a_problem_and_says_what_pages_do(fronts: Fronts, owner: Actor) -> None:
    ran = outlive(fronts.bare, token_of(owner), "doctor", "--idle", "1")
    assert ran.code == 1
    (line,) = [line for line in ran.out.splitlines() if line.startswith("PROBLEM")]
    assert line.startswith("PROBLEM  websocket")
    assert "refreshing every 5 s" in line
    assert "pass Upgrade and Connection on" in line


def test_a_front_of_an_unknown_address_refuses_forms_and_sockets(fronts: Fronts, owner: Actor, tmp_path: Path) -> None:
    front, server = beside(fronts.direct, tmp_path, "")
    with running_nginx(tmp_path / "nginx", server):
        ran = outlive(front, token_of(owner), "doctor", "--json")
    assert verdicts(ran) == {"address": "problem", "websocket": "problem"}
    (address,) = [row for row in ran.rows if row.get("check") == "address"]
    assert address["next_move"] == f"Start it with OUTLIVE_BASE_URL={front.base}."


def test_a_buffer_on_the_way_a_small_limit_and_impatience_are_found(
    fronts: Fronts, owner: Actor, tmp_path: Path
) -> None:
    change = f"""
        proxy_ignore_headers X-Accel-Buffering;
        proxy_set_header Origin {fronts.nginx.base};
        proxy_read_timeout 3s;"""
    front, server = beside(fronts.direct, tmp_path, change)
    server = server.replace("client_max_body_size 80m;", "").replace(
        'Connection "upgrade";', f'Connection "upgrade";\n        proxy_set_header Origin {fronts.nginx.base};'
    )
    with running_nginx(tmp_path / "nginx", server):
        ran = outlive(front, token_of(owner), "doctor", "--idle", "12", "--json")
    found = verdicts(ran)
    assert found.pop("address") == "warning"
    assert found == {"sse": "problem", "uploads": "problem", "idle": "problem"}
