#!/usr/bin/env python3
"""Plant known defects, one at a time, in a copy of the package, and let `kubeskew explore` find each.

    hack/planted.py [--only NAME]… [--list] [--control]

tests/data/planted.yaml holds the defects. All are looked for from the same scenario, which was not written
for any of them. A defect is found if an exploration has a finding that matches; with --control the sources
stay as they are, and no finding may match. Exits 1 if that fails. The sources are never changed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from mutants import ROOT, NotPlantedError, plant

PLANTED = ROOT / "tests" / "data" / "planted.yaml"
CELL = "dra/churn/1.36"
SECONDS = 1800  # for one defect, on a machine that may be busy

Defect = Mapping[str, Any]


def explore(defect: Defect, package: Path) -> Mapping[str, Any]:
    """Returns what an exploration reports, by the package that lies in a directory."""
    command = [
        *(sys.executable, "-P", "-m", "kubeskew", "explore", defect.get("cell", CELL), "-o", "json"),
        *("--seeds", str(defect["seeds"]), "--jobs", "1", "--no-minimize", "--until", defect["found"]),
    ]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}:\n{done.stderr[-2000:]}") from None
    return report


def matching(defect: Defect, report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the first finding that shows the defect; None if there is none."""
    for finding in sorted(report["findings"], key=lambda finding: finding["seed"]):
        if re.search(defect["found"], finding["title"]):
            return dict(finding)
    return None


def judge(defect: Defect, *, control: bool) -> tuple[bool, str]:
    """Plants a defect and explores; returns whether that went as it should, and a line about it."""
    with tempfile.TemporaryDirectory(prefix="kubeskew-planted-") as directory:
        package = ROOT if control else Path(directory)
        try:
            if not control:
                plant(defect, package)
        except NotPlantedError as error:
            return False, str(error)
        report = explore(defect, package)
    finding = matching(defect, report)
    if finding is None:
        return control, f"nothing found in {report['runs']} seeds"
    return not control, f"seed {finding['seed']} of {report['runs']}: {finding['title']}"


def main() -> int:
    """Look for the defects that are chosen; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument("--list", action="store_true", help="print the defects instead")
    parser.add_argument("--control", action="store_true", help="explore without the defects")
    arguments = parser.parse_args()
    defects = {defect["name"]: defect for defect in yaml.safe_load(PLANTED.read_text())}
    if unknown := [name for name in arguments.only if name not in defects]:
        parser.error(f"there is no defect {', '.join(unknown)}; there are {', '.join(defects)}")
    missed = 0
    for name, defect in defects.items():
        if arguments.only and name not in arguments.only:
            continue
        if arguments.list:
            print(f"{name:26} {defect['component']:20} {defect['breaks']}")
            continue
        started = time.monotonic()
        right, line = judge(defect, control=arguments.control)
        missed += not right
        print(f"{name} ({time.monotonic() - started:.0f} s): {'' if right else 'WRONG: '}{line}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
