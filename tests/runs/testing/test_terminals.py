"""An agent's shell under the fixture `outlive`: a real terminal, typed into once whatever dies, gone with the test."""

import psutil

from runs.testing.lab import Outlive
from runs.testing.terminals import TerminalsHost


def hosts() -> list[psutil.Process]:
    """Name the hosts of terminals that this process has started."""
    return [one for one in psutil.Process().children() if "terminals" in one.cmdline()]


def test_an_agent_has_a_real_terminal(outlive: Outlive) -> None:
    before = len(hosts())
    run = outlive.run("probe", {"key": "k", "n": 0, "shell": ["X=kept", "tty && echo is-$X; false"]})
    assert run.status == "completed", run.error
    (_, first), (output, code) = run.result["shell"]
    assert (first, code) == (0, 1)
    assert output.startswith("/dev/pts/")
    assert output.endswith("is-kept\n")
    assert [entry.state for entry in run.ledger] == ["succeeded", "succeeded"]
    (shell,) = run.children
    assert (shell.status, shell.cancel_effects) == ("cancelled", ["stopped"])
    assert len(hosts()) == before + 1


def test_a_command_is_typed_once_although_its_worker_dies(outlive: Outlive) -> None:
    crash = outlive.crash_at("after_receipt_before_commit")
    run = outlive.run("probe", {"key": "k", "n": 0, "shell": ["echo once >> typed; cat typed"]})
    assert crash.happened
    assert (run.status, run.result["shell"]) == ("completed", [["once\n", 0]])


def test_a_stop_ends_the_command_with_proof(outlive: Outlive) -> None:
    run = outlive.start("probe", {"key": "k", "n": 0, "shell": ["sleep 31337"]})
    run.until("tool.dispatched")
    run.stop()
    run.to_end()
    assert (run.status, set(run.cancel_effects)) == ("cancelled", {"stopped"})


def test_without_a_shell_no_host_is_started(outlive: Outlive) -> None:
    before = hosts()
    assert outlive.run("probe", {"key": "k", "n": 0, "steps": 1}).status == "completed"
    assert hosts() == before


def test_its_end_leaves_nothing() -> None:
    host = TerminalsHost()
    before = len(hosts())
    for _ in range(2):  # once is enough
        host.start()
    assert len(hosts()) == before + 1
    host.close()
    assert len(hosts()) == before
    assert not host.folder.exists()
