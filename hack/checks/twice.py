"""Runs every cell twice in simulations, with faults and without, and names the first step that differs.

    python hack/checks/twice.py                     all cells
    python hack/checks/twice.py --only 'dra/*'      some

Each cell is run without faults and with those that its number draws. The second run is compared with the
first as it goes: virtual time, process and code of every callback; in the end the hash of the log.
"""

import argparse
import sys
from fnmatch import fnmatchcase

from kubeskew.conformance import matrix
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.faults.plan import Plan
from kubeskew.simulation.faults.plan_generator import describe, draw
from kubeskew.simulation.runs import FaultyRun, Simulated, Trace, simulate, simulate_with_faults


def difference(cell: Cell, seed: int, plan: Plan | None) -> str:
    """Place where the second run of a cell parts from the first; empty if it does not."""
    first = Trace()
    before = _run(cell, seed, plan, first)
    second = Trace(first)
    after = _run(cell, seed, plan, second)
    if second.difference:
        return second.difference
    if len(first.steps) != len(second.steps):
        return f"it ended after {len(second.steps)} steps; before, after {len(first.steps)}"
    return "" if before.log_hash == after.log_hash else "the same steps wrote another log"


def _run(cell: Cell, seed: int, plan: Plan | None, trace: Trace) -> Simulated:
    if plan is None:
        return simulate(cell, seed, lambda _: None, trace=trace)
    return simulate_with_faults(cell, FaultyRun(plan, seed), lambda _: None, trace=trace)


def main() -> int:
    """1 if a cell differs from itself."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="*", metavar="PATTERN", help="cells whose names match")
    wanted = parser.parse_args().only
    cells = [cell for cell in matrix.of_profile("full").cells(()) if fnmatchcase(cell.name, wanted)]
    cells = [cell for cell in cells if not cell.uses("script")]
    different = 0
    for number, cell in enumerate(cells):
        for plan in (None, draw(number, describe(cell))):
            found = difference(cell, number, plan)
            different += bool(found)
            kind = "without faults" if plan is None else f"with the faults of seed {number}"
            print(f"{number + 1} of {len(cells)} {cell.name} {kind}: {found or 'the same'}", flush=True)
    print(f"{different} of {2 * len(cells)} runs differ from themselves")
    return 1 if different or not cells else 0


if __name__ == "__main__":
    sys.exit(main())
