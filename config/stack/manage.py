"""manage.py with the settings of what runs in this checkout: its database, its Redis, its secret key."""

import subprocess
from collections.abc import Mapping
from typing import NoReturn

import psutil

from config.stack.errors import StackError
from config.stack.identity import load_record
from config.stack.programs import PYTHON
from config.stack.state import CHECKOUT, StateFolder, state_root

WHOSE = "supervisor"  # any of the programs would do: all have the same environment


def run_manage(argv: list[str], environ: Mapping[str, str]) -> int:
    """Run a command of manage.py. Returns its exit code. Raises: StackError when nothing runs here."""
    return subprocess.call([PYTHON, "manage.py", *argv], cwd=CHECKOUT, env={**environ, **running_environ(environ)})


def running_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Read the environment of the running supervisor. Raises: StackError."""
    record = load_record(StateFolder(state_root(environ)).record(WHOSE))
    if record is None or not record.is_alive():
        _is_not_running()
    try:
        return dict(psutil.Process(record.pid).environ())
    except psutil.Error:
        _is_not_running()


def _is_not_running() -> NoReturn:
    raise StackError(
        "Outlive is not running in this checkout, so there is no database to ask. Start it with `make up`."
    )
