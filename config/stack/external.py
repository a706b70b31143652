"""Programs that only tests need (Chromium, nginx, vim and such): found, else installed as root, else said how."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

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
    probe: str = "--version"  # what it is asked to see whether it runs


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
# /usr/sbin is on no ordinary user's PATH.
NGINX = External("nginx", "OUTLIVE_NGINX", ("nginx", "/usr/sbin/nginx"), "nginx", "the proxy tests", probe="-v")
FAKETIME = External("faketime", "OUTLIVE_FAKETIME", ("faketime",), "faketime", "the test of clocks that are wrong")
SSHD = External("sshd", "OUTLIVE_SSHD", ("sshd", "/usr/sbin/sshd"), "openssh-server", "the SSH tests", probe="-V")
# What people run in shells.
VIM = External("vim", "OUTLIVE_VIM", ("vim",), "vim", "the browser tests of shells")
LESS = External("less", "OUTLIVE_LESS", ("less",), "less", "the browser tests of shells")
TOP = External("top", "OUTLIVE_TOP", ("top",), "procps", "the browser tests of shells", probe="-h")
EXTERNALS = (CHROMIUM, NODE, NGINX, FAKETIME, SSHD, VIM, LESS, TOP)
# What Debian asks whether a new package may start its service (101: no).
SERVICES = Path("/usr/sbin/policy-rc.d")


def find(program: External, environ: Mapping[str, str]) -> str | None:
    """Return the path of the program, None when there is none that runs: a stub of a package manager does not."""
    given = environ.get(program.variable)
    for command in (given,) if given else program.commands:
        path = shutil.which(command, path=environ.get("PATH"))
        if path and _runs(path, program.probe):
            return path
    return None


def _runs(path: str, probe: str) -> bool:
    try:
        done = subprocess.run([path, probe], capture_output=True, timeout=PROBE_SECONDS, check=False)
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
        with no_services(SERVICES):
            run_with_retries([*apt, "install", "-y", "--no-install-recommends", *packages], what="apt-get install")


@contextlib.contextmanager
def no_services(policy: Path) -> Iterator[None]:
    """Keep new packages from starting services: tests start their own, and nobody asked to have this machine opened."""
    if policy.exists():  # whoever wrote it has decided
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink(missing_ok=True)


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
