"""`make chaos`: the whole matrix as a table, then the proofs of shells, and what is wrong.

ARGS="plain / freeze": the cells with these words; ARGS=shells: the proofs alone, ARGS="shells / grace" some of them.
Exit code 1 when an invariant or a promise is broken, or a run came to an end that its cell does not allow.
"""

import sys
import tempfile
from pathlib import Path

from tests.chaos.matrix import SCENARIOS, Outcome, cells, run_cell
from tests.chaos.shells.proofs import proofs
from tests.chaos.shells.table import print_proofs
from tests.chaos.site import open_site

SHORT = {"completed": "ok", "cancelled": "stopped", "needs_reconciliation": "verify", "failed": "FAILED"}


def main(words: str) -> int:
    """Run the cells and print what they came to."""
    outcomes: list[Outcome] = []
    stuck: list[str] = []
    wanted, shown = list(cells(words)), list(proofs(words))
    print(f"{len(wanted)} cells of {len(SCENARIOS)} scenarios, {len(shown)} proofs of shells")
    with tempfile.TemporaryDirectory(prefix="outlive-chaos-") as folder, open_site(Path(folder)) as site:
        for cell in wanted:
            try:
                outcome = run_cell(site, cell)
            except AssertionError as error:
                stuck.append(str(error))
                print(f"{cell!s:70} STUCK {str(error)[:200]}", flush=True)
                continue
            outcomes.append(outcome)
            wrong = "" if outcome.is_right else f"WRONG {outcome.broken or cell.allowed} {outcome.run_id}"
            print(f"{cell!s:70} {SHORT[outcome.status]:8} {outcome.went_on_after:6.2f} s  {wrong}", flush=True)
        not_shown = print_proofs(site, shown)
    _print_table(outcomes)
    wrong = [outcome for outcome in outcomes if not outcome.is_right]
    print(f"\n{len(outcomes)} runs checked, {sum(bool(o.broken) for o in outcomes)} break an invariant, "
          f"{len(wrong)} wrong in all, {len(stuck)} stuck; {not_shown} proofs of shells are wrong")  # fmt: skip
    for outcome in wrong:
        print(f"  {outcome.cell}: {outcome.status} {outcome.broken}")
    return 1 if wrong or stuck or not_shown else 0


def _print_table(outcomes: list[Outcome]) -> None:
    """Print scenario and place against fault: the end, and the seconds until the run went on."""
    faults = list(dict.fromkeys(o.cell.fault.name for o in outcomes))
    rows: dict[str, dict[str, str]] = {}
    for o in outcomes:
        text = f"{SHORT[o.status]} {o.went_on_after:.1f}s{'' if o.is_right else ' !'}"
        rows.setdefault(f"{o.cell.scenario.what} @ {o.cell.place}", {})[o.cell.fault.name] = text
    print(f"\n{'':44}" + "".join(f"{name:>17}" for name in faults))
    for name, row in rows.items():
        print(f"{name:44}" + "".join(f"{row.get(fault, ''):>17}" for fault in faults))


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
