"""`python -m tests.explore [--orders N] [--seed N] [--only NAME] [--trace TRACE]`: walk deep, or replay one order.

PostgreSQL is that of DATABASE_URL; a test database is made in it and removed. `make explore` starts both.
"""

import argparse
import os
import sys

import django

MOST_ORDERS = 1500


def main(argv: list[str]) -> int:
    """Walk. Returns 0, or 1 when an order broke an invariant: it is told, and kept."""
    parser = argparse.ArgumentParser(prog="make explore")
    parser.add_argument("--orders", type=int, default=MOST_ORDERS, help="at most so many orders of each scenario")
    parser.add_argument("--seed", type=int, default=0, help="which of the orders with most switches")
    parser.add_argument("--only", default="", help="scenarios whose name has this in it")
    parser.add_argument("--trace", default="", help="replay this order and tell it")
    options = parser.parse_args(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    django.setup()
    from django.db import connection

    connection.creation.create_test_db(verbosity=0)
    try:
        return replay(options.trace) if options.trace else walk_all(options)
    finally:
        connection.creation.destroy_test_db(connection.settings_dict["NAME"], verbosity=0)


def replay(trace: str) -> int:
    """Walk one order and tell it, step by step."""
    from tests.explore.orders import Failed
    from tests.explore.stages import a_stage, an_owner, find

    scenario, schedule = find(trace)
    with a_stage(scenario, an_owner()) as stage:
        try:
            order = stage.play(schedule)
        except Failed as failed:
            print(failed)
            return 1
    print(f"{scenario.name}:{order.schedule}", *order.tell(), sep="\n")
    return 0


def walk_all(options: argparse.Namespace) -> int:
    """Walk each scenario and say how far it got."""
    from tests.explore.kept import keep
    from tests.explore.orders import Failed, walk
    from tests.explore.scenarios import SCENARIOS
    from tests.explore.stages import a_stage, an_owner

    total = failures = 0
    owner = an_owner()
    print(f"{'scenario':34} {'orders':>7}  which")
    for name, scenario in SCENARIOS.items():
        if options.only not in name:
            continue
        with a_stage(scenario, owner) as stage:
            stage.is_fine = True
            try:
                walked = walk(stage, limit=options.orders, seed=options.seed)
            except Failed as failed:
                failures += 1
                print(f"{name:34} BROKEN   kept as {keep(failed)}", failed, sep="\n")
                continue
        total += walked.orders
        which = "all" if walked.is_complete else f"all with less than {walked.switches} switches, and some with more"
        print(f"{name:34} {walked.orders:7}  {which}; {walked.orders / walked.seconds:.0f} a second", flush=True)
    print(f"{total} orders walked, {failures} scenarios broken")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
