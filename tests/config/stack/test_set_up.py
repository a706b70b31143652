"""The environment is made once, kept up to date by content, and made again when it no longer works."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from config.stack.node import LOCK, STAMP, node_program
from config.stack.retry import TRIES, run_with_retries
from config.stack.set_up import FILES, fits, set_up
from config.stack.state import CHECKOUT

pytestmark = pytest.mark.timeout(180)


EMPTY_LOCK = '{"name": "x", "lockfileVersion": 3, "packages": {"": {"name": "x"}}}'


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose requirements are empty, so that nothing is fetched."""
    root = tmp_path / "a checkout"
    root.mkdir()
    for name in (*FILES["dev"], "requirements-node.txt"):
        (root / name).write_text("# nothing\n")
    (root / "package.json").write_text('{"name": "x"}')
    (root / LOCK).write_text(EMPTY_LOCK)
    monkeypatch.setenv("OUTLIVE_NODE", node_program(CHECKOUT / ".venv", os.environ))
    return root


def test_it_makes_and_updates_the_environment_and_sees_a_broken_one(
    checkout: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    python = checkout / ".venv/bin/python"
    assert set_up(checkout, "app")
    assert "Installing requirements.txt, requirements-model.txt\n" in capfd.readouterr().out
    found = subprocess.run([python, "-c", "import sys; print(sys.path)"], capture_output=True, text=True, check=True)
    assert str(checkout) in found.stdout
    assert (checkout / ".venv/bin/outlive").stat().st_mode & 0o111

    assert set_up(checkout, "app")
    assert capfd.readouterr().out == ""
    moved = checkout.with_name("moved")
    moved.symlink_to(checkout)
    assert fits(checkout / ".venv")
    assert not fits(moved / ".venv")

    assert set_up(checkout, "dev")
    assert "Installing requirements-dev.txt\n" in capfd.readouterr().out

    (checkout / "requirements.txt").write_text("# nothing, but other words\n")
    assert set_up(checkout, "app")
    assert "Installing requirements.txt\n" in capfd.readouterr().out

    python.unlink()
    python.symlink_to("/no/such/python")
    assert not fits(checkout / ".venv")


def test_packages_of_node_are_installed_when_their_lock_differs(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert set_up(checkout, "dev")
    assert (checkout / STAMP).read_text() == EMPTY_LOCK
    (checkout / STAMP).with_name("left").touch()
    assert set_up(checkout, "dev")
    assert (checkout / "node_modules/left").exists(), "nothing differed, but it was made again"

    # The two files differ, which npm refuses.
    (checkout / "package.json").write_text('{"name": "x", "dependencies": {"@xterm/none": "1.0.0"}}')
    (checkout / LOCK).write_text(EMPTY_LOCK + "\n")
    monkeypatch.setattr("config.stack.retry.PAUSE_SECONDS", 0.0)
    assert not set_up(checkout, "dev")
    assert "failed 3 times" in capfd.readouterr().err

    monkeypatch.setenv("OUTLIVE_NODE", "/no/such/node")
    assert set_up(checkout, "app"), "runs need no xterm.js"
    said = capfd.readouterr()
    assert "Installing requirements-node.txt\n" in said.out
    assert "set OUTLIVE_NODE" in said.err
    assert "without xterm.js" in said.err


def test_a_failed_step_is_tried_three_times_with_longer_pauses(tmp_path: Path) -> None:
    count = tmp_path / "count"
    pauses: list[float] = []
    script = f"echo x >> {count}; exit 1"
    assert not run_with_retries(["sh", "-c", script], what="It", sleep=pauses.append)
    assert len(count.read_text().split()) == TRIES
    assert pauses == [5.0, 10.0]


def test_a_step_that_succeeds_later_is_a_success(tmp_path: Path) -> None:
    script = f"test -e {tmp_path}/x || {{ touch {tmp_path}/x; exit 1; }}"
    assert run_with_retries(["sh", "-c", script], what="It", sleep=lambda _seconds: None)


def test_find_python_skips_what_does_not_run(tmp_path: Path) -> None:
    (tmp_path / "python3").symlink_to(sys.executable)
    shim = tmp_path / "python3.13"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    script = CHECKOUT / "config/stack/find_python.sh"
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": "/nonexistent"}
    found = subprocess.run(["sh", script], env=environ, capture_output=True, text=True, check=True)
    version = subprocess.run([found.stdout.strip(), "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.split()[1] >= "3.12"


def test_find_python_says_what_is_missing(tmp_path: Path) -> None:
    script = CHECKOUT / "config/stack/find_python.sh"
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(["/bin/sh", script], env=environ, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        pytest.skip("a Python in /usr/local or /opt/homebrew was found, as it should be")
    assert "needs Python 3.12 or newer" in done.stderr
    assert len(done.stderr.splitlines()) == 1
