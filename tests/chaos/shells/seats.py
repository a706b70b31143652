"""Shells of an installation under chaos: opened over HTTP, piloted over their socket, looked at from outside."""

import asyncio
import os
from dataclasses import dataclass
from typing import Any

import psutil

from tests.bench.client import Address
from tests.bench.shells import Ours
from tests.chaos.site import Site, uuid_of
from tests.stack import wait_until
from tools.processes.terminals.host import socket_of

SECONDS = 60.0
PROMPT = b"READY> "
ROW = """
select r.status, r.cancel_reason, r.cancel_requested_at, r.terminal_at, r.grace_expires_at, r.control_count,
  r.grace_seconds, (select max(presence_until) from runs_controlconnection c where c.run_id = r.id) as presence_until
from runs_run r where r.id = %s"""


@dataclass(frozen=True)
class Shell:
    """A shell whose terminal is there."""

    site: Site
    id: str
    run: str
    folder: str

    def row(self) -> dict[str, Any]:
        """Return what its run's row says now, with the database's own times."""
        found = self.site.database(lambda connection: connection.execute(ROW, [uuid_of(self.run)]).fetchone())
        assert found is not None
        return found

    def processes(self) -> list[psutil.Process]:
        """Return what runs in the terminal."""
        marked = psutil.process_iter(["environ"])
        return [one for one in marked if (one.info["environ"] or {}).get("OUTLIVE_WARD") == self.id]

    def ward(self) -> psutil.Process:
        """Return its ward: the parent of its program."""
        for one in self.processes():
            parent = one.parent()
            if parent is not None and "warden.py terminals" in " ".join(parent.cmdline()):
                return parent
        raise AssertionError(f"{self.id} has no ward")

    def end(self) -> None:
        """Stop it, and see the end of its run."""
        self.site.http(lambda: self.site.stack.client.post(f"/shells/{self.id}/terminate"))
        self.site.stack.wait(self.run, seconds=SECONDS)


def host_of(site: Site) -> psutil.Process:
    """Return the program `terminals`, without the wards that it has forked."""
    return site.stack.the("warden.py terminals")


def open_shell(site: Site, **body: Any) -> Shell:
    """Open a shell and wait for its terminal."""
    answer = site.http(lambda: site.stack.client.post("/shells", json=body))
    assert answer.status_code == 201, answer.text
    made, folder = answer.json(), host_of(site).cmdline()[-1]
    shell = Shell(site, made["id"], made["run"], folder)
    wait_until(lambda: os.path.exists(socket_of(folder, shell.id)), seconds=SECONDS, what=f"the terminal of {shell.id}")
    return shell


def address_of(site: Site, port: int | None = None) -> Address:
    """Return where the web server is, or a proxy before it, and by whose right we ask."""
    base = site.stack.base_url if port is None else f"http://127.0.0.1:{port}"
    return Address(base, {"Authorization": f"Bearer {site.stack.token}"})


async def a_pilot(shell: Shell, *, port: int | None = None) -> Ours:
    """Attach as the pilot, at a prompt that nothing else prints."""
    pilot = await Ours.opened(address_of(shell.site, port), shell.id)
    pilot.type(b"PS1='REA''DY> '; HISTFILE=\r")
    await pilot.until(PROMPT)
    return pilot


async def leave(*terms: Ours) -> None:
    """Close these sockets, and see them closed."""
    for term in terms:
        term.close()
    await asyncio.wait([term.stream.closed for term in terms if term.stream is not None])
