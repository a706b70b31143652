"""Screens are the same for whoever was cut off: after kill -9 of web and of a worker nothing on them differs.

What is compared are the states of terminals (cells, colours, cursor, modes), as screens_law.mjs reads them.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from config.stack.node import node_program
from runs.reading.shell_line import ShellFrame, ShellLine, ShellOutput
from tests.chaos.faults import kill_worker
from tests.chaos.shells.proof import Found, Size
from tests.chaos.shells.seats import SECONDS, Shell, a_pilot, leave, open_shell
from tests.chaos.site import Site
from tests.stack import ROOT
from tools.processes.terminals.link import Output, Skipped, Terminal

LAW = ROOT / "tests/tools/processes/terminals/screens_law.mjs"
END = b"the last line"
# Colours, wide characters, a cursor that jumps, lines that scroll away; a piece each 20 ms.
PAINT = (
    b"for i in $(seq 1 300); do printf '\\033[%d;%dH\\033[1;%dmw%d \xe5\xae\xb6\xc3\xa9\\033[0m' "
    b"$((i*7%24+1)) $((i*13%60+1)) $((31+i%7)) $i; [ $((i%40)) = 0 ] && printf '\\033[24;1H\\nline %d\\n' $i; "
    b"sleep 0.02; done; echo 'the la''st line'\r"
)


def screens(site: Site, _: Size) -> Found:
    """Show it for a client that comes back by its offset, and one that comes anew, beside one that was never cut."""
    return asyncio.run(_screens(site))


async def _screens(site: Site) -> Found:
    found, cuts = Found(), list[str]()
    shell = open_shell(site, on_disconnect={"grace_s": 600})
    pilot = await a_pilot(shell)
    async with asyncio.timeout(2 * SECONDS), asyncio.TaskGroup() as both:
        uninterrupted = both.create_task(_at_the_ward(shell))
        cut_off = both.create_task(_by_socket(shell, cuts))
        pilot.type(PAINT)
        await pilot.until(b"w60 ")
        await asyncio.to_thread(kill_worker, site, shell.run)
        await asyncio.to_thread(site.stack.kill, "streaming.server")
    await asyncio.to_thread(site.whole)
    whole = uninterrupted.result()
    for name, shown in (("cut off", cut_off.result()), ("newcomer", await _by_socket(shell, []))):
        difference = await asyncio.to_thread(_compare, whole, shown)
        found.must(not difference, f"{name}: {difference[:300]}")
    found.facts |= {"cuts": len(cuts), "bytes": len(whole)}
    found.must(cuts, "the client was never cut off")
    await leave(pilot)
    shell.end()
    return found


async def _at_the_ward(shell: Shell) -> bytes:
    """Read as a client that no process of ours stands between; give every byte up to the end."""
    seen = b""
    async with Terminal.attach(shell.folder, shell.id, role="viewer", **{"from": 0}) as terminal:
        async for item in terminal:
            assert not isinstance(item, Skipped)
            if isinstance(item, Output):
                seen += item.data
            if END in seen:
                break
    return seen


async def _by_socket(shell: Shell, cuts: list[str]) -> bytes:
    """Read as a viewer over the web, over any cut; give what it painted: its first screen and what came after."""
    painted, stack = b"", shell.site.stack
    line = ShellLine(stack.base_url, stack.token, shell.id, role="viewer", on_cut=lambda why, _: cuts.append(why))
    async with line:
        async for item in line:
            if isinstance(item, ShellOutput):
                painted = item.data if item.is_screen else painted + item.data
            if isinstance(item, ShellFrame) and item.type == "screen":
                assert item.data["exact"], item.data
            if END in painted:
                break
    return painted


def _compare(one: bytes, other: bytes) -> str:
    """Paint both on terminals of 24 x 80 and give how these differ; empty: not at all."""
    with tempfile.TemporaryDirectory(prefix="outlive-screens-") as name:
        paths = [Path(name, number) for number in ("one", "other")]
        for path, data in zip(paths, (one, other), strict=True):
            path.write_bytes(data)
        node = node_program(Path(sys.prefix), os.environ)
        done = subprocess.run([node, str(LAW), "same", *map(str, paths)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr or "node failed"
