"""Programs that only tests need, Chromium and Node: found, else installed as root, else it is said how."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from config.stack.retry import run_with_retries

PROBE_SECONDS = 30.0


@dataclass(frozen=True)
class External:
    """A program under the names that systems give it. `variable` names it by hand."""

    name: str
    variable: str
    commands: tuple[str, ...]
    package: str
    tests: str


CHROMIUM = External(
    "Chromium",
    "OUTLIVE_CHROMIUM",
    (
        "chromium",
        "google-chrome",
        "google-chrome-stable",
        "chromium-browser",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
    ),
    "chromium",
    "the browser tests",
)
NODE = External("Node", "OUTLIVE_NODE", ("node", "nodejs"), "nodejs", "the JavaScript tests")
EXTERNALS = (CHROMIUM, NODE)


def find(program: External, environ: Mapping[str, str]) -> str | None:
    """Return the path of the program, None when there is none that runs: a stub of a package manager does not."""
    given = environ.get(program.variable)
    for command in (given,) if given else program.commands:
        path = shutil.which(command, path=environ.get("PATH"))
        if path and _runs(path):
            return path
    return None


def _runs(path: str) -> bool:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def can_install(environ: Mapping[str, str]) -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get", path=environ.get("PATH")) is not None


def install(packages: list[str]) -> None:
    """Install Debian packages as root. What failed shows itself when the programs are looked for again."""
    print(f"Installing {', '.join(packages)} (apt-get)", flush=True)
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    if run_with_retries([*apt, "update"], what="apt-get update"):
        run_with_retries([*apt, "install", "-y", "--no-install-recommends", *packages], what="apt-get install")


def ensure(environ: Mapping[str, str], *, install: Callable[[list[str]], None] = install) -> list[str]:
    """Find or install every program. Returns one line for each that stays missing: what is skipped, what to run."""
    missing = [program for program in EXTERNALS if not find(program, environ)]
    by_hand = [program for program in missing if environ.get(program.variable)]
    wanted = [program.package for program in missing if program not in by_hand]
    if wanted and can_install(environ):
        install(wanted)
        missing = [program for program in missing if not find(program, environ)]
    return [
        f"{environ[program.variable]} (from {program.variable}) does not run"
        if program in by_hand
        else f"{program.name} is missing, {program.tests} are skipped. To have it: "
        f"sudo apt-get install {program.package}, or set {program.variable} to the program"
        for program in missing
    ]


def main(environ: Mapping[str, str]) -> int:
    """Returns 1 when something is missing and CI=true: there a skipped test is a failure."""
    lines = ensure(environ)
    for line in lines:
        print(f"outlive: {line}.", file=sys.stderr)
    return 1 if lines and environ.get("CI") == "true" else 0


if __name__ == "__main__":
    sys.exit(main(os.environ))
