#!/usr/bin/env python3
"""Run one seed of a cell as `kubeskew explore` does, and print what it finds, without time lines.

    hack/checks/explored_seed.py CELL SEED

The JSON is `{runs, findings: [{id, seed, title}]}`, as that of `kubeskew explore CELL --seed SEED -o json`.
"""

import json
import sys

from kubeskew.simulation.explore.classes import read_entries
from kubeskew.simulation.explore.findings import Finding
from kubeskew.simulation.explore.jobs import RunJob
from kubeskew.simulation.explore.laboratory import Simulations
from kubeskew.simulation.explore.selection import cells_named, origin_of
from kubeskew.simulation.faults.plan import Kind


def main() -> None:
    cells, seed = cells_named([sys.argv[1]], {}), int(sys.argv[2])
    ran = Simulations(cells, tuple(Kind)).run(RunJob(0, seed))
    origin = origin_of(cells[0])
    findings = [
        Finding(*(origin, seed, failure, verdict, ran.plan, ran.faults, ran.log_hash))
        for failure, verdict in ran.classed(read_entries(), {})
    ]
    entries = [{"id": finding.id, "seed": seed, "title": finding.title} for finding in findings]
    print(json.dumps({"runs": 1, "findings": entries}))


if __name__ == "__main__":
    main()
