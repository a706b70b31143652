"""Chromium and Node: found, else installed as root, else said; and CI=true makes a missing one a failure."""

import os
from pathlib import Path

import pytest

from config.stack.external import CHROMIUM, EXTERNALS, NODE, ensure, find, main


def program(folder: Path, name: str, script: str = "exit 0") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A PATH with nothing but what a test puts there (and sh, which is found by its full name)."""
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def test_a_program_that_does_not_run_is_not_there(bin_folder: Path) -> None:
    environ = {"PATH": str(bin_folder)}
    program(bin_folder, "chromium", "exit 1")
    assert find(CHROMIUM, environ) is None
    path = program(bin_folder, "google-chrome")
    assert find(CHROMIUM, environ) == str(path)


def test_a_named_program_wins_and_is_never_replaced(bin_folder: Path) -> None:
    program(bin_folder, "chromium")
    program(bin_folder, "node")
    environ = {"PATH": str(bin_folder), "OUTLIVE_CHROMIUM": "/no/such"}
    assert find(CHROMIUM, environ) is None
    installed: list[list[str]] = []
    assert ensure(environ, install=installed.append) == ["/no/such (from OUTLIVE_CHROMIUM) does not run"]
    assert installed == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root installs")
def test_root_installs_what_is_missing_and_looks_again(bin_folder: Path) -> None:
    program(bin_folder, "apt-get")
    program(bin_folder, "node")

    def install(packages: list[str]) -> None:
        assert packages == [CHROMIUM.package]
        program(bin_folder, "chromium")

    assert ensure({"PATH": str(bin_folder)}, install=install) == []


@pytest.mark.parametrize(("ci", "code"), [("true", 1), ("", 0)])
def test_what_stays_missing_is_said_with_the_command(
    bin_folder: Path, capsys: pytest.CaptureFixture[str], ci: str, code: int
) -> None:
    """There is no apt-get on this PATH."""
    program(bin_folder, "node")
    assert main({"PATH": str(bin_folder), "CI": ci}) == code
    said = capsys.readouterr().err
    assert "Chromium is missing, the browser tests are skipped" in said
    assert "sudo apt-get install chromium" in said
    assert len(said.splitlines()) == 1


def test_nothing_is_said_when_all_are_there(bin_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for external in EXTERNALS:
        program(bin_folder, external.commands[0])
    assert NODE in EXTERNALS
    assert main({"PATH": str(bin_folder), "CI": "true"}) == 0
    assert capsys.readouterr().err == ""
