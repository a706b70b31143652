"""Shells on other machines: where the target's row sends ssh.py, and what its verdict makes of the receipt."""

import dataclasses
import os
from collections.abc import Mapping

from runs.conf import limits
from runs.models import Shell
from tools.effects import Outcome, Receipt
from tools.processes.terminals.owned import Plan
from tools.processes.terminals.remote import Verdict, ssh_argv

LOOK_SECONDS = 4.0  # of the stop: for the wait and the look on the other side


def is_remote(shell: Shell) -> bool:
    """Say whether it is on another machine."""
    return shell.target is not None and shell.target.kind == "ssh"


def grace_of(shell: Shell) -> float:
    """Return the seconds that a stop leaves its program."""
    return limits().term_grace_seconds + (LOOK_SECONDS if is_remote(shell) else 0.0)


def remote_plan(shell: Shell, key: str, folder: str, allowed: Mapping[str, str], record_path: str | None) -> Plan:
    """Return the program that goes there. It runs as ourselves: it reads the key; people type through it.

    allowed: the environment of local commands; of it only what a program needs to start.
    """
    target = shell.target
    assert target is not None  # is_remote
    place = {
        "host": target.host,
        "port": target.port,
        "username": target.username,
        "host_key": target.host_key,
        "key_file": target.key_file,
        "agent_path": os.environ.get("SSH_AUTH_SOCK", "") if target.uses_agent else "",
        "command": shell.command,
        "term_seconds": limits().term_grace_seconds,
    }
    kept = {name: allowed[name] for name in ("PATH", "LANG") if name in allowed}
    return Plan(
        key=key,
        argv=ssh_argv(folder, key, place),
        cwd="/",
        env=kept | {"TERM": "xterm-256color", "HOME": "/nonexistent"},  # no key or setting of ours is found by itself
        rows=shell.rows,
        cols=shell.cols,
        grace_seconds=grace_of(shell),
        adopt_seconds=limits().adopt_seconds,
        record_path=record_path,
    )


def judged(receipt: Receipt, verdict: Verdict | None, host: str) -> Receipt:
    """Let the other side decide what the end of our own program means."""
    if receipt.outcome is Outcome.UNKNOWN:
        return receipt
    if verdict is None or not verdict.is_gone:
        error = verdict.error if verdict is not None else ""
        text = error or f"The end of the shell on {host} is not proven: what it started there may still run."
        return dataclasses.replace(
            receipt, outcome=Outcome.UNKNOWN, proof="no proof", error=text, code="remote_not_proven"
        )
    if verdict.code and receipt.outcome is Outcome.SUCCEEDED:
        return dataclasses.replace(
            receipt,
            outcome=Outcome.FAILED,
            proof=f"nothing of it is left on {host}",
            error=verdict.error,
            code=verdict.code,
        )
    return dataclasses.replace(receipt, proof=f"process tree empty, nothing of it left on {host}")
