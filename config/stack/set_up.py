"""Make .venv fit the requirements files and node_modules its lock: `python -m config.stack.set_up app|dev`.

Standard library only, because it runs before anything is installed. A copy of each requirements file is kept in the
environment once it is installed; only a file that differs from its copy is installed again, so a second call costs
almost nothing. A file lock makes two calls at once take turns.
"""

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from config.stack.node import install_packages, npm_command, packages_fit
from config.stack.retry import run_with_retries

CHECKOUT = Path(__file__).resolve().parents[2]
FILES = {
    "app": ("requirements.txt", "requirements-model.txt"),
    "dev": ("requirements.txt", "requirements-model.txt", "requirements-dev.txt"),
}
NODE_FILE = "requirements-node.txt"  # for machines whose Node is too old, has no npm, or is not there
LOCATION = "installed/location"
COMMAND = """#!/bin/sh
# The command line of this checkout.
exec '{python}' -c 'import sys; from runs.cli import main; sys.exit(main())' "$@"
"""


def set_up(checkout: Path, what: str) -> bool:
    """Bring `.venv` up to date for `app` or `dev`. Returns False when a step failed; it has said why."""
    venv = checkout / ".venv"
    with _alone(checkout / ".venv.lock"):
        if not fits(venv) and not _make(venv):
            return False
        missing = [name for name in FILES[what] if not _is_installed(checkout / name, venv)]
        if missing and not _install(checkout, venv, missing):
            return False
        _link_checkout(checkout, venv)
        if packages_fit(checkout) or _install_node_packages(checkout, venv):
            return True
    if what == "app":
        # Runs need none of it, and a shell can be read and stopped without; the next start tries again.
        print("outlive: going on without xterm.js: pages show shells as text only", file=sys.stderr)
    return what == "app"


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _python(venv: Path) -> Path:
    return venv / "bin" / "python"


def fits(venv: Path) -> bool:
    """Tell whether the environment works here: the Python behind it may be gone, or the checkout was moved."""
    if _read(venv / LOCATION) not in (None, str(venv)):
        return False
    probe = "import sys, pip; sys.exit(not (3, 12) <= sys.version_info[:2] < (3, 16))"
    try:
        return subprocess.run([_python(venv), "-c", probe], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _make(venv: Path) -> bool:
    print(f"Making .venv with Python {sys.version.split()[0]}", flush=True)
    if venv.is_symlink() or venv.is_file():
        venv.unlink()
    shutil.rmtree(venv, ignore_errors=True)
    return subprocess.run([sys.executable, "-m", "venv", str(venv)], check=False).returncode == 0


def _stamp(file: Path, venv: Path) -> Path:
    return venv / "installed" / file.name


def _is_installed(file: Path, venv: Path) -> bool:
    return _read(_stamp(file, venv)) == file.read_text()


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except OSError:
        return None


def _install(checkout: Path, venv: Path, names: list[str]) -> bool:
    print(f"Installing {', '.join(names)}", flush=True)
    started = time.monotonic()
    wanted = {name: (checkout / name).read_text() for name in names}
    pip = [str(_python(venv)), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    for name in names:
        # Compiling all 11,000 modules took three times as long as the rest; what is imported is compiled then.
        argv = [*pip, "--no-deps", "--require-hashes", "--no-compile", "-r", str(checkout / name)]
        if not run_with_retries(argv, what=f"Installing {name}"):
            return False
        stamp = _stamp(checkout / name, venv)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(wanted[name])
    print(f"Installed in {time.monotonic() - started:.0f} s", flush=True)
    return True


def _install_node_packages(checkout: Path, venv: Path) -> bool:
    npm = npm_command(venv, os.environ)
    if npm is None:
        if not _install(checkout, venv, [NODE_FILE]):
            return False
        npm = npm_command(venv, os.environ)
    if npm is None:
        print(f"outlive: the Node of {NODE_FILE} does not run here: set OUTLIVE_NODE to one with npm", file=sys.stderr)
        return False
    return install_packages(checkout, npm)


def _link_checkout(checkout: Path, venv: Path) -> None:
    """Make our packages importable and `outlive` a command, without a build step that would need the network."""
    _write(venv / LOCATION, str(venv), 0o644)
    for site in venv.glob("lib/python3*/site-packages"):
        _write(site / "outlive.pth", f"{checkout}\n", 0o644)
    _write(venv / "bin" / "outlive", COMMAND.format(python=_python(venv)), 0o755)


def _write(path: Path, text: str, mode: int) -> None:
    if _read(path) == text:
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.chmod(mode)
    draft.replace(path)


if __name__ == "__main__":
    sys.exit(0 if set_up(CHECKOUT, sys.argv[1]) else 1)
