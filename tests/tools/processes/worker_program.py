"""A worker for the tests to kill or freeze: runs one command under a ProcessHost until it is over.

python -m tests.tools.processes.worker_program FOLDER LEASE_SECONDS SCRIPT [keep]

With `keep` it has the proof kept, makes `ended` when the command is over, and releases the proof once `release` exists.
"""

import asyncio
import sys
from pathlib import Path

from tests.tools.builders import ENV, wait_until
from tools.processes.host import ProcessHost
from tools.scope import Scope, boottime

KEY = "run_1/st_1"


async def main(folder: Path, lease_seconds: float, script: str, keeps: bool = False) -> None:
    """Run `script`; once it has made the file `up`, let the lease end in `lease_seconds` and make `leased`."""
    host = ProcessHost(proof_dir=folder)
    host.renew("run_1/", boottime() + 60)
    command = host.run(["bash", "-c", script], key=KEY, cwd=folder, env=ENV, scope=Scope(), keeps_proof=keeps)
    running = asyncio.ensure_future(command)
    await wait_until((folder / "up").exists)
    host.renew("run_1/", boottime() + lease_seconds)
    (folder / "leased").touch()
    await running
    if keeps:
        (folder / "ended").touch()
        await wait_until((folder / "release").exists)
        host.release(KEY)
        (folder / "released").touch()
        await host.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:] == ["keep"]))
