"""Become another program that dies with its parent: `python -I -S launch.py OPTIONS -- ARGV`.

The steps have an order: the kernel clears the parent-death signal when a process changes its identity, so the
identity comes first. `--userns` lets root run a program that refuses root, without a change of any file's owner.
After exec the process keeps its id and its start time. Standard library only.
"""

import argparse
import ctypes
import os
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
INNER_ID = 1000  # any id but 0: what the program sees as its own user inside the namespace
CANNOT_LAUNCH = 126


def enter_user_namespace() -> None:
    """Map the present user to an ordinary one. Raises OSError where the kernel or a container forbids it."""
    if not hasattr(os, "unshare"):
        raise OSError("user namespaces need Linux")
    uid, gid = os.geteuid(), os.getegid()
    os.unshare(os.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{INNER_ID} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{INNER_ID} {gid} 1")


def become_user(uid: int, gid: int) -> None:
    """Drop root for good."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def die_with_parent(signal_number: int, parent: int) -> None:
    """Ask for the signal at the parent's death (Linux; elsewhere the next start cleans up)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    # The parent may have died before the call above; then no signal will ever come.
    if os.getppid() != parent:
        sys.exit(CANNOT_LAUNCH)


def main() -> None:
    parser = argparse.ArgumentParser(prog="launch")
    parser.add_argument("--userns", action="store_true")
    parser.add_argument("--uid", type=int)
    parser.add_argument("--gid", type=int)
    parser.add_argument("--death-signal", type=int, default=0)
    parser.add_argument("--parent", type=int, default=0)
    parser.add_argument("argv", nargs="+")
    options = parser.parse_args()
    try:
        if options.userns:
            enter_user_namespace()
        if options.uid is not None:
            become_user(options.uid, options.gid)
        if options.death_signal:
            die_with_parent(options.death_signal, options.parent)
        os.execvp(options.argv[0], options.argv)
    except OSError as error:
        sys.stderr.write(f"cannot start {options.argv[0]}: {error}\n")
        sys.exit(CANNOT_LAUNCH)


if __name__ == "__main__":
    main()
