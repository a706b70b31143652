"""A ward that is killed with -9 proves nothing; the host that its orphans fall to does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.builders import a_marker, living, wait_until
from tests.tools.processes.terminals.conftest import KEY, Terminals
from tools.processes.proofs import load_proof, store_proof
from tools.processes.results import CommandNotStarted
from tools.processes.terminals.host import socket_of
from tools.processes.terminals.owned import Terminals as Hands
from tools.scope import Scope

ROOT = Path(__file__).parents[4]
# A host whose signals do nothing, so that it can be seen to wait: a ward is killed and leaves one process, then that
# one is killed. Prints whether there is a proof after each.
HOST = """
import json, os, signal, sys, time
from tools.processes import kernel
from tools.processes.proofs import load_proof
from tools.processes.terminals import killed
kernel.become_subreaper()
killed.kill_strays = lambda wards: None
reader, writer = os.pipe()
ward = os.fork()
if ward == 0:
    left = os.fork()
    if left == 0:
        signal.pause()
    os.write(writer, str(left).encode())
    signal.pause()
left, wards = int(os.read(reader, 20)), killed.Wards()
other = os.fork()
if other == 0:
    signal.pause()
wards.living = {ward: ({"key": "k", "proof_dir": sys.argv[1]}, "/no/such/socket"), other: ({"key": "o"}, "/no/other")}
def proof_after(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    wards.settle()
    wards.settle()
    return load_proof(sys.argv[1], "k") is not None
print(json.dumps([proof_after(ward), proof_after(left), wards.has("/no/other")]))
os.kill(other, signal.SIGKILL)
"""


async def test_its_tree_is_ended_and_the_end_is_proven(terminals: Terminals) -> None:
    marker = a_marker()
    await terminals.start("bash", "-c", f"trap '' TERM HUP; ( ( setsid sleep {marker} & ) & ); sleep {marker}")
    await wait_until(lambda: len(living(marker)) == 2)
    await terminals.start("sleep", "600", key="another")
    hands = Hands(folder=terminals.folder, proof_dir=terminals.folder)
    async with terminals.seat("viewer", key="another") as neighbour, terminals.seat("viewer") as seat:
        ward = next(one for one in terminals.wards() if marker in " ".join(one.children()[0].cmdline()))
        ward.kill()
        proof = await hands.hold(KEY, run_id="run_1", fence=1, scope=Scope(), grace_seconds=0.2)
        assert not living(marker)
        assert (proof.gone, proof.cause, proof.by_itself, proof.status) == (True, "ward", False, None)
        await seat.to_end()
        assert "exit" not in neighbour.terminal.welcome
    assert socket_of(str(terminals.folder), KEY) not in map(str, terminals.folder.iterdir())
    hands.release("run_1")
    assert load_proof(str(terminals.folder), KEY) is None
    assert load_proof(str(terminals.folder), "another") is None
    assert await terminals.start() > 0


async def test_what_the_ward_has_proven_itself_stays(terminals: Terminals) -> None:
    """It was killed after it had written its proof."""
    await terminals.start("sleep", "600")
    proof = {"gone": True, "exit": 3, "by_itself": True, "cause": "ended", "signalled": [], "reaped": 1, "ms": 0.0}
    store_proof(str(terminals.folder), KEY, proof)
    (ward,) = terminals.wards()
    ward.kill()
    await wait_until(lambda: not os.path.exists(socket_of(str(terminals.folder), KEY)))
    assert (load_proof(str(terminals.folder), KEY) or {})["exit"] == 3


async def test_its_key_is_not_given_away_before_it_is_reaped(terminals: Terminals) -> None:
    """A dying ward does not listen any more; a second terminal of its key would be taken for the dead one."""
    await terminals.start("sleep", "600")
    os.unlink(socket_of(str(terminals.folder), KEY))
    with pytest.raises(CommandNotStarted, match="is running"):
        await terminals.start()


def test_nothing_is_proven_while_something_of_it_lives(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HOST, str(tmp_path)], cwd=ROOT, check=True, capture_output=True, text=True, timeout=30
    )
    assert json.loads(done.stdout) == [False, True, True]
