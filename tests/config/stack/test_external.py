"""Programs that tests need: found, else installed as root, else said; and CI=true makes a missing one a failure."""

import os
import subprocess
from pathlib import Path

import pytest

from config.stack.external import CHROMIUM, EXTERNALS, NGINX, ensure, find, main, no_services


def program(folder: Path, name: str, script: str = "exit 0") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A PATH with nothing but what a test puts there (and sh, which is found by its full name).

    All programs but Chromium are there: a test is about that one.
    """
    folder = tmp_path / "bin"
    folder.mkdir()
    for external in EXTERNALS:
        if external is not CHROMIUM:
            program(folder, external.commands[0])
    return folder


def test_a_program_that_does_not_run_is_not_there(bin_folder: Path) -> None:
    environ = {"PATH": str(bin_folder)}
    program(bin_folder, "chromium", "exit 1")
    assert find(CHROMIUM, environ) is None
    path = program(bin_folder, "google-chrome")
    assert find(CHROMIUM, environ) == str(path)


def test_each_program_is_asked_in_its_own_way(bin_folder: Path) -> None:
    """nginx knows no --version: asked for it, it fails."""
    path = program(bin_folder, "nginx", '[ "$1" = -v ]')
    assert find(NGINX, {"PATH": str(bin_folder)}) == str(path)


def test_a_named_program_wins_and_is_never_replaced(bin_folder: Path) -> None:
    program(bin_folder, "chromium")
    environ = {"PATH": str(bin_folder), "OUTLIVE_CHROMIUM": "/no/such"}
    assert find(CHROMIUM, environ) is None
    installed: list[list[str]] = []
    assert ensure(environ, install=installed.append) == ["/no/such (from OUTLIVE_CHROMIUM) does not run"]
    assert installed == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")
def test_root_installs_what_is_missing_and_looks_again(bin_folder: Path) -> None:
    program(bin_folder, "apt-get")

    def install(packages: list[str]) -> None:
        assert packages == [CHROMIUM.package]
        program(bin_folder, "chromium")

    assert ensure({"PATH": str(bin_folder)}, install=install) == []


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_what_stays_missing_is_said_with_the_command(
    bin_folder: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    """There is no apt-get on this PATH."""
    assert main({"PATH": str(bin_folder), "CI": ci}) == code
    said = capsys.readouterr().err
    assert "Chromium is missing, the browser tests are skipped" in said
    assert "sudo apt-get install chromium" in said
    assert len(said.splitlines()) == 1


def test_nothing_is_said_when_all_are_there(bin_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for external in EXTERNALS:
        program(bin_folder, external.commands[0])
    assert main({"PATH": str(bin_folder), "CI": "true"}) == 0
    assert capsys.readouterr().err == ""


def test_a_package_that_is_installed_starts_no_service(tmp_path: Path) -> None:
    """Else the tests of SSH would leave an open sshd behind, and those of proxies an nginx."""
    policy = tmp_path / "policy-rc.d"
    with no_services(policy):
        assert subprocess.run([policy, "ssh", "start"], check=False).returncode == 101
    assert not policy.exists()


def test_a_policy_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    policy = program(tmp_path, "policy-rc.d")
    before = policy.read_text()
    with no_services(policy):
        assert policy.read_text() == before
    assert policy.read_text() == before
