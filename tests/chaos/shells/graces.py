"""The grace is exact: a shell that nobody pilots ends between its grace and two seconds more, whoever was killed.

By the database's own times: noticed (what the row's expiry is counted from), asked to end, ended.
"""

import asyncio
import re
import time
from datetime import datetime
from urllib.parse import urlsplit

from runs.conf import limits
from runs.shell_frames import OUTPUT, unpack
from tests.bench.shells import SECONDS, Ours
from tests.chaos.shells.proof import Found, Size
from tests.chaos.shells.seats import Shell, a_pilot, address_of, leave, open_shell
from tests.chaos.shells.wire import Wire, wire_to
from tests.chaos.site import Site
from tests.stack import wait_until

WEB, SUPERVISOR = "streaming.server", "outlive_supervisor"
GRACE_SECONDS = 5.0
NOTICE_SECONDS = limits().presence_seconds + limits().sweep_seconds
LINES = 250


class Careful(Ours):
    """A pilot that keeps all it was shown, and notes each offset that does not follow."""

    def __init__(self) -> None:
        super().__init__()
        self.text = bytearray()
        self.begin = -1
        self.holes = 0

    def _take(self, message: bytes) -> None:
        if message[:1] != b"{":
            channel, offset, data = unpack(message)
            if channel == OUTPUT:
                self.begin = offset if self.begin < 0 else self.begin
                self.holes += offset != self.begin + len(self.text)
                self.text += data
        super()._take(message)


def grace(
    site: Site, size: Size, *, killed: tuple[str, ...], leaves: bool, seconds_before: float = GRACE_SECONDS
) -> Found:
    """Show it where these are killed with -9 at the loss, or so many seconds before the end of the grace.

    leaves: the pilot closes its socket itself, after an older one whose close comes late; else its server is killed.
    """
    shell = open_shell(site, on_disconnect={"grace_s": GRACE_SECONDS})
    found = Found()
    asyncio.run(_lose(shell, found, killed if not leaves else (), leaves=leaves))
    expires = wait_until(lambda: shell.row()["grace_expires_at"], seconds=NOTICE_SECONDS + 30, what="the notice")
    before = shell.row()
    noticed = (expires - before["presence_until"]).total_seconds() - GRACE_SECONDS
    if leaves:
        found.must(noticed <= 0, "a close was not noticed at once")
        wait_until(lambda: _remaining(site, expires) <= seconds_before, seconds=60, what="the moment to kill")
        for what in killed:
            site.stack.kill(what)
    else:
        found.facts["noticed_after_lease_s"] = round(noticed, 2)
        found.must(0 <= noticed <= size.most_late, f"noticed {noticed:.2f} s after the lease")
    site.whole()
    site.stack.wait(shell.run, seconds=60)
    row = shell.row()
    since = {what: (row[at] - expires).total_seconds() for what, at in
             (("asked", "cancel_requested_at"), ("ended", "terminal_at"))}  # fmt: skip
    found.facts |= {f"{what}_after_grace_s": round(late, 2) for what, late in since.items()}
    found.must((row["status"], row["cancel_reason"]) == ("cancelled", "client_gone"), f"it is {row['status']}")
    found.must(
        0 <= since["asked"] <= since["ended"] <= size.most_late, f"it ended {since['ended']:.2f} s after its grace"
    )
    return found


def _remaining(site: Site, expires: datetime) -> float:
    now = site.database(lambda connection: connection.execute("select clock_timestamp() as now").fetchone())
    assert now is not None
    return float((expires - now["now"]).total_seconds())


async def _lose(shell: Shell, found: Found, killed: tuple[str, ...], *, leaves: bool) -> None:
    pilot = await a_pilot(shell)
    if not leaves:
        assert shell.row()["grace_expires_at"] is None
        for what in killed:
            shell.site.stack.kill(what)
        await leave(pilot)
        return
    had = pilot.ready.result()["generation"]
    successor = await Ours.opened(address_of(shell.site), shell.id, f"role=pilot&had={had}")
    await leave(pilot)
    successor.type(b"echo he''re\r")
    await successor.until(b"here")
    row = shell.row()
    found.must((row["grace_expires_at"], row["control_count"]) == (None, 1), "an older pilot's close started the grace")
    await leave(successor)


def silence(site: Site, size: Size) -> Found:
    """Show that a pilot whose packets vanish is missed within the lease, and goes on at its byte within the grace."""
    port = urlsplit(site.stack.base_url).port
    assert port is not None
    with wire_to(port) as wire:
        return asyncio.run(_silence(site, size, wire))


async def _silence(site: Site, size: Size, wire: Wire) -> Found:
    found = Found()
    shell = open_shell(site, on_disconnect={"grace_s": 60})
    pilot = await a_pilot(shell, port=wire.port)
    first = await Careful.opened(
        address_of(site, wire.port), shell.id, f"role=pilot&had={pilot.ready.result()['generation']}"
    )
    assert isinstance(first, Careful)
    first.type(b"for i in $(seq 1 %d); do echo n$i; sleep 0.05; done; echo do''ne\r" % LINES)
    await first.until(b"n3\r\n")
    wire.lose_packets()
    began = time.monotonic()
    while (row := shell.row())["grace_expires_at"] is None:
        assert time.monotonic() < began + NOTICE_SECONDS + 30, "it was never missed"
        await asyncio.sleep(0.05)
    noticed = (row["grace_expires_at"] - row["presence_until"]).total_seconds() - float(row["grace_seconds"])
    found.facts |= {"noticed_after_lease_s": round(noticed, 2), "missed_after_s": round(time.monotonic() - began, 2)}
    found.must(0 <= noticed <= size.most_late, f"noticed {noticed:.2f} s after the lease")
    assert first.stream is not None
    found.must(not first.stream.closed.done(), "its socket was closed: packets did not vanish")
    wire.heal()
    frame = first.ready.result()
    again = await Careful.opened(
        address_of(site, wire.port), shell.id, f"role=pilot&from={first.next}&had={frame['generation']}"
    )
    assert isinstance(again, Careful)
    ready = again.ready.result()
    found.must((ready["role"], ready["continues"]) == ("pilot", True), f"it came back as {ready}")
    async with asyncio.timeout(SECONDS):
        await again.until(b"done\r\n")
    lines = re.findall(rb"n(\d+)\r\n", bytes(first.text + again.text))
    found.facts["lines_while_away"] = len(re.findall(rb"n\d+\r\n", bytes(again.text)))
    found.must(again.begin == first.next and not first.holes + again.holes, "an offset does not follow")
    found.must(lines == [b"%d" % number for number in range(1, LINES + 1)], "a line is missing, or came twice")
    row = shell.row()
    found.must(
        (row["status"], row["grace_expires_at"]) == ("running", None), f"its return did not end the grace: {row}"
    )
    await leave(pilot, first, again)
    shell.end()
    return found
