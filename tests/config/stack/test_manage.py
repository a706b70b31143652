"""manage.py on what runs in a checkout: with its settings, or one line that says that nothing runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from config.stack.errors import StackError
from config.stack.identity import record_of, save_record
from config.stack.manage import run_manage, running_environ
from config.stack.state import create_folder


def test_where_nothing_runs_it_says_how_to_start(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="make up"):
        run_manage(["check"], {"OUTLIVE_STATE": str(tmp_path)})


def test_the_settings_are_those_of_what_runs(tmp_path: Path) -> None:
    state = create_folder(tmp_path / "state")
    script = "import sys; print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script, "outlive_supervisor"],
        env={"DATABASE_URL": "postgres://here"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        save_record(state.record("supervisor"), record_of("supervisor", process.pid, "outlive_supervisor"))
        asked = {"OUTLIVE_STATE": str(state.root)}
        assert running_environ(asked)["DATABASE_URL"] == "postgres://here"
        process.kill()
        process.wait()
        with pytest.raises(StackError):
            running_environ(asked)
