"""Play the cases against a server: `python -m tests.conformance --base URL`, with its token in OUTLIVE_TOKEN.

The token must be allowed to read, start and stop runs; the server must have the agent "probe". One line a play; the
exit code is 1 if one of them failed. `--only` takes parts of names (case, client, transport).
"""

import argparse
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.play import Combination, combinations, hurried, play, read_cases
from tests.conformance.site import Server


def main() -> int:
    """Play, print, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--base", required=True, help="the server's address, plain http")
    parser.add_argument("--only", default="", help="parts of names, with spaces between; all of them must be in it")
    parser.add_argument("--slow", action="store_true", help="also what takes more than ten seconds")
    parser.add_argument("--at-once", type=int, default=4, help="plays at the same time")
    chosen = parser.parse_args()
    token = os.environ.get("OUTLIVE_TOKEN", "")
    if not token:
        parser.error("OUTLIVE_TOKEN is empty")
    wanted = [
        one
        for one in combinations([case for case in read_cases() if chosen.slow or not case.is_slow])
        if all(part in str(one) for part in chosen.only.split())
    ]
    with hurried(), ThreadPoolExecutor(chosen.at_once) as threads:
        problems = list(threads.map(lambda one: _tell(one, chosen.base, token), wanted))
    failed = sum(problem is not None for problem in problems)
    print(f"{len(wanted) - failed} of {len(wanted)} hold.")
    return 1 if failed or not wanted else 0


def _tell(one: Combination, base: str, token: str) -> str | None:
    server = Server(base, token)
    try:
        play(server, one)
    except Exception as error:  # a play may fail by anything; the others go on
        print(f"FAIL  {one}: {one.case.name}: {error!r}"[:2000], flush=True)
        return repr(error)
    else:
        print(f"ok    {one}", flush=True)
        return None
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main())
