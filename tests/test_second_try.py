"""The second try in CI, by a run of pytest of its own: with several processes, time limits and a session's fixture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.second_try import is_firm

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import time
from pathlib import Path
import pytest
from tests.second_try import of_this_try

HERE = Path(__file__).parent
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3)]

@pytest.fixture(scope="session")
def site():
    with (HERE / "sites").open("a") as file:
        file.write("begun ")
    yield
    with (HERE / "sites").open("a") as file:
        file.write("ended ")

def is_first(name):
    is_first = not (HERE / name).exists()
    (HERE / name).touch()
    return is_first

def test_once(site):
    assert of_this_try("key") == ("key" if is_first("once") else "key-again")
    assert (HERE / "tried").exists() or (HERE / "tried").touch(), "the first failure"

def test_hangs_once(site):
    while is_first("hangs"):
        time.sleep(60)

def test_hangs(site):
    time.sleep(60)

def test_twice(site):
    assert not "the second failure"
"""
QUICK = "def test_quick():\n    assert False\n"


def ran(folder: Path, **environ: str) -> str:
    """Run those tests in two processes and return what was said."""
    (folder / "test_slow.py").write_text(TESTS)
    (folder / "test_quick.py").write_text(QUICK)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = acceptance: x\n")
    clean = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.apart", "-p", "tests.second_try", "-p", "no:django",
         "-p", "no:runs.testing.plugin", "-v", "-n", "2"],
        cwd=folder, env=clean | {"PYTHONPATH": str(ROOT)} | environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    folder = tmp_path_factory.mktemp("ci")
    return ran(folder, CI="1"), (folder / "sites").read_text()


def test_xdist_hands_files_out_as_a_whole(said: tuple[str, str]) -> None:
    """Its own way to group (xdist_group) does nothing under pytest 9.2, and says nothing."""
    assert "scheduling tests via TogetherScheduling" in said[0]
    assert len({line[:5] for line in said[0].splitlines() if line.startswith("[gw") and "test_slow.py" in line}) == 1


def test_what_fails_twice_fails(said: tuple[str, str]) -> None:
    assert "3 failed, 2 passed, 5 rerun" in said[0]
    for name in ("test_slow.py::test_hangs", "test_slow.py::test_twice", "test_quick.py::test_quick"):
        assert f"FAILED {name} " in said[0]


def test_the_end_has_the_first_failure_of_what_passed_then(said: tuple[str, str]) -> None:
    listed = said[0].partition("rerun test summary info")[2]
    assert "RERUN test_slow.py::test_once" in listed
    assert "AssertionError: the first failure" in listed
    assert "Timeout (>3" in listed


def test_the_tries_share_the_fixtures_of_the_session(said: tuple[str, str]) -> None:
    assert said[1] == "begun ended "


def test_where_there_is_no_ci_there_is_no_second_try(tmp_path: Path) -> None:
    assert "5 failed" in ran(tmp_path)


def test_an_order_that_a_test_makes_itself_is_right_the_first_time() -> None:
    tests = ROOT / "tests"
    assert all(is_firm(tests / name) for name in ("explore/test_a.py", "races/test_a.py", "runs/decisions/test_a.py"))
    assert not any(is_firm(tests / name) for name in ("browser/test_a.py", "runs/test_a.py", "test_a.py"))
