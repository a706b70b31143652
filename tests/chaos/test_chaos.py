"""A sample of the crash matrix in which each scenario and each fault comes once; `make chaos` runs all of it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.chaos.faults import FAULTS
from tests.chaos.matrix import SCENARIOS, Outcome, cells, run_cell
from tests.chaos.site import Site
from tests.second_try import of_this_try

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SAMPLE = [
    "model / in the middle / kill worker",  # B30 (a)
    "command / in the middle / kill worker",  # B30 (b)
    "idempotent / after_receipt_before_commit / kill worker",  # B30 (c), B38
    "plain / after_dispatch_before_receipt / freeze worker",  # B31
    "model / before_end / freeze worker",  # B31: just before the final write
    "read / after_dispatch_before_receipt / restart redis",
    "checked / after_receipt_before_commit / kill supervisor",
    "command / in the middle / drop bells",
    "input / in the middle / flush redis",
    "stop / before_settle / kill web",
    "gather / in the middle / kill worker",
    "child / before_end / drop bells",
    "timer / in the middle / kill supervisor",
    "retry / in the middle / restart redis",
    "shell / in the middle / kill web",
]
RESTARTED = [f"{what} / in the middle / restart postgres" for what in ("model", "command", "shell")]


def survive(site: Site, words: str) -> Outcome:
    """Do the one cell that the words name."""
    (cell,) = cells(words)
    outcome = run_cell(site, cell)
    assert outcome.broken == []
    assert outcome.status in cell.allowed
    return outcome


def test_the_sample_has_each_scenario_and_each_fault() -> None:
    chosen = [cell for words in [*SAMPLE, *RESTARTED] for cell in cells(words)]
    assert len(chosen) == len(SAMPLE) + len(RESTARTED)
    assert {cell.scenario.what for cell in chosen} == {scenario.what for scenario in SCENARIOS}
    assert {cell.fault.name for cell in chosen} == set(FAULTS)


@pytest.mark.parametrize("words", [words for words in SAMPLE if "kill worker" in words])
def test_b30_a_run_outlives_its_killed_worker(site: Site, words: str) -> None:
    """Nobody waits for its lease to end: its parent has seen it die."""
    outcome = survive(site, words)
    lost = [event["data"]["reason"] for event in site.stack.events(outcome.run_id) if event["type"] == "claim.lost"]
    assert lost == ["worker_lost"]


def test_b30_a_command_that_was_over_when_its_worker_died_is_not_run_again(site: Site) -> None:
    """Its worker had the result and stored nothing of it: the ward says how it ended."""
    outcome = survive(site, "command / after_receipt_before_commit / kill worker")
    assert site.stack.run(outcome.run_id)["result"] == "exit 0, output lost"
    types = [event["type"] for event in site.stack.events(outcome.run_id)]
    assert types.count("tool.dispatched") == 1


@pytest.mark.parametrize("words", [words for words in SAMPLE if "freeze worker" in words])
def test_b31_a_frozen_worker_that_wakes_up_changes_nothing(site: Site, words: str) -> None:
    """Stopped for longer than its lease with a permit or the end in its hand; another one has taken over meanwhile."""
    outcome = survive(site, words)
    before = site.row(outcome.run_id)
    effects = site.effects(outcome.run_id)
    site.wait_awake()
    after = site.row(outcome.run_id)
    assert (after["fence"], after["last_seq"], effects) == (before["fence"], before["last_seq"], {})
    assert site.effects(outcome.run_id) == {}
    assert site.broken(outcome.run_id) == []


def test_b34_a_restart_of_postgresql_needs_no_restart_of_ours(site: Site) -> None:
    """In mid-stream, in mid-tool and in a shell, with the other worker idle; then five new runs, and as many shells."""
    workers = {process.pid for process in site.whole()["runs.execution.worker_main"]}
    for words in RESTARTED:
        survive(site, words)
    runs = [site.start(of_this_try(f"b34-{number}"), "idempotent", hold=False) for number in range(5)]
    for number in range(5):
        key = of_this_try(f"b34-shell-{number}")
        (site.stack.tokens / f"{key}.release").touch()
        runs.append(site.start(key, "shell", hold=False))
    for run_id in runs:
        assert site.stack.wait(run_id)["status"] == "completed"
        assert site.broken(run_id) == []
    assert {process.pid for process in site.whole()["runs.execution.worker_main"]} == workers


def test_b33_many_creates_at_once_while_workers_are_idle(site: Site) -> None:
    """Sixty over eight connections: none fails because its run is not there yet."""
    site.whole()
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda number: site.start(of_this_try(f"b33-{number}"), "read", hold=False), range(60)))
    assert len(set(runs)) == 60
    for run_id in runs:
        assert site.stack.wait(run_id)["status"] == "completed"


def test_b35_a_worker_whose_loop_stands_still_keeps_its_run(site: Site) -> None:
    """Blocked for more than two leases, with another worker idle: one claim, and its write lands once."""
    site.whole()
    run_id = site.start(of_this_try("b35-block"), "block", hold=False)
    assert site.stack.wait(run_id)["status"] == "completed"
    assert [event["type"] for event in site.stack.events(run_id)].count("claim.started") == 1
    assert list(site.effects(run_id).values()) == [1]
    assert site.broken(run_id) == []


@pytest.mark.parametrize("words", [words for words in SAMPLE if "worker" not in words])
def test_a_run_survives(site: Site, words: str) -> None:
    survive(site, words)
