"""`python -m tests.bench [--quick] [row ...]`: measure, and print one JSON line a row.

The database and Redis are those of DATABASE_URL and REDIS_URL; `make bench` starts both for it.
"""

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import uvloop

from config.stack.ports import free_ports
from tests.bench import behind, crash, fanout, idle, readers, shells, start, stop, throughput
from tests.bench.bench import FULL, QUICK, Bench, Scale
from tests.bench.client import Address
from tests.bench.figures import Figure
from tests.bench.runs import Client
from tests.bench.site import await_answer, prepare, running_program, running_site

ROWS: dict[str, Callable[[Bench], AsyncIterator[Figure]]] = {
    "a": start.first_token,
    "b.delay": fanout.delays,
    "b.rate": fanout.rates,
    "b.whole": readers.whole,
    "b.stuck": readers.stuck,
    "c.process": stop.of_a_process,
    "c.streaming": stop.of_a_stream,
    "c.queued": stop.of_a_queued_run,
    "c.trees": stop.of_trees,
    "d.behind": behind.caught_up,
    "d.floor": behind.below_floor,
    "e": crash.killed_worker,
    "e.lost": crash.lost_host,
    "f.runs": throughput.whole_runs,
    "f.steps": throughput.durable_steps,
    "g.each": idle.kilobytes_each,
    "g.crowd": idle.beside_a_crowd,
    "h": shells.of_a_shell,
}


def main(argv: list[str]) -> int:
    """Measure the chosen rows. Returns 0, or 1 when something was lost, doubled, out of order or told too early."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test: too few samples for any conclusion")
    parser.add_argument("rows", nargs="*", help=f"beginnings of row names, all if none: {', '.join(ROWS)}")
    options = parser.parse_args(argv)
    chosen = [name for name in ROWS if not options.rows or any(name.startswith(begun) for begun in options.rows)]
    if not chosen:
        parser.error(f"no such row; there are {', '.join(ROWS)}")
    with running_site(prepare()) as site, running_reference() as (reference, pid):

        async def measure(scale: Scale) -> bool:
            client = Client(site)
            bench = Bench(site, client, reference, pid, scale, os.environ["DATABASE_URL"], os.environ["REDIS_URL"])
            is_exact = True
            for name in chosen:
                async for figure in ROWS[name](bench):
                    print(figure.line(), flush=True)
                    is_exact = is_exact and figure.is_exact
            client.http.close()
            return is_exact

        return 0 if uvloop.run(measure(QUICK if options.quick else FULL)) else 1


@contextlib.contextmanager
def running_reference() -> Iterator[tuple[Address, int]]:
    """Run the reference server for the length of a block; gives its address and its process."""
    port = free_ports(1)[0]
    base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="outlive-bench-reference-") as name:
        folder = Path(name)
        argv = ("-m", "tests.bench.reference", "--port", str(port))
        with running_program("reference", argv, folder, os.environ) as process:
            await_answer(f"{base}/", process, folder / "reference.log")
            yield Address(base, {}), process.pid


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
