#!/usr/bin/env python3
"""Let explorations come upon known bugs, and see that fixed releases do not have them.

    hack/checks/explored_bugs.py [--only ID]… [--list]

tests/data/explored_bugs.yaml names the bugs: each by a cell at an affected release, a seed, and a cell at a
fixed release. The seed has to have a finding of the class `known:ID`; the same faults, played in the other
cell, none. Exits 1 if that fails.
"""

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kubeskew.conformance.invariants.findings import KNOWN
from kubeskew.simulation.explore.classes import read_entries
from kubeskew.simulation.explore.jobs import Ran, RunJob
from kubeskew.simulation.explore.laboratory import Simulations
from kubeskew.simulation.explore.selection import cells_named
from kubeskew.simulation.faults.plan import Kind

BUGS = Path(__file__).resolve().parents[2] / "tests" / "data" / "explored_bugs.yaml"


def run(cell: str, seed: int, plan: Mapping[str, Any] | None = None) -> Ran:
    """Runs a seed of a cell, or a plan."""
    return Simulations(cells_named([cell], {}), tuple(Kind)).run(RunJob(0, seed, plan=plan))


def shown(ran: Ran, bug: str) -> list[str]:
    """Only findings of the class of the bug."""
    entries, wanted = read_entries(), KNOWN + bug.removeprefix("k8s-")
    return [
        f"{failure.invariant}: {failure.message}"
        for on in (False, True)
        for failure, verdict in ran.classed(entries, {bug: on})
        if verdict.class_ == wanted
    ]


def judge(entry: Mapping[str, Any]) -> tuple[bool, str]:
    """Finds out if a bug shows where it should and nowhere else; the text is a line about it."""
    red = run(entry["red"], entry["seed"])
    found = shown(red, entry["bug"])
    if not found:
        return False, f"{entry['red']} seed {entry['seed']}: not found"
    if entry["how"] not in "; ".join(red.faults):
        return False, f"{entry['red']} seed {entry['seed']} has other faults by now: {'; '.join(red.faults)}"
    if left := shown(run(entry["green"], entry["seed"], red.plan), entry["bug"]):
        return False, f"{entry['green']} has it, too: {left[0]}"
    return True, f"{entry['red']} seed {entry['seed']}: {found[0]}"


def main() -> int:
    """Looks for the chosen bugs; 1 if one is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="ID", help="repeatable")
    parser.add_argument("--list", action="store_true", help="print the bugs instead")
    arguments = parser.parse_args()
    bugs = {entry["bug"]: entry for entry in yaml.safe_load(BUGS.read_text())}
    if unknown := [bug for bug in arguments.only if bug not in bugs]:
        parser.error(f"there is no bug {', '.join(unknown)}; there are {', '.join(bugs)}")
    missed = 0
    for bug, entry in bugs.items():
        if arguments.only and bug not in arguments.only:
            continue
        if arguments.list:
            print(f"{bug:12} red at {entry['red']}, green at {entry['green']}, seed {entry['seed']}")
            continue
        started = time.monotonic()
        right, line = judge(entry)
        missed += not right
        print(f"{bug} ({time.monotonic() - started:.0f} s): {'' if right else 'WRONG: '}{line}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
