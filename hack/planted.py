#!/usr/bin/env python3
"""Plant known defects, one at a time, in what one command imports, and let `kubeskew explore` find each.

    hack/planted.py [--only NAME]… [--list] [--control]

tests/data/planted.yaml holds the defects. All are looked for from the same scenario, which was not written
for any of them. A defect is found if an exploration has a finding that matches, of which nobody knows
otherwise, and the same seed has no such finding without the defect; with --control the sources stay as they
are, and no finding may match. Exits 1 if that fails. The sources are never changed.
"""

import argparse
import json
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
from mutants import ROOT, NotPlantedError, environment_for, plant

PLANTED = ROOT / "tests" / "data" / "planted.yaml"
CELL = "dra/churn/1.36"
SECONDS = 1800  # for one defect, on a machine that may be busy

Defect = Mapping[str, Any]


def explore(defect: Defect, package: Path, *budget: str) -> Mapping[str, Any]:
    """Returns what an exploration reports, with the defect that lies in a directory."""
    command = [
        *(sys.executable, "-P", "-m", "kubeskew", "explore", defect.get("cell", CELL), "-o", "json"),
        *("--jobs", "1", "--no-minimize", "--until", found_by(defect), *budget),
    ]
    done = subprocess.run(
        command,
        env=environment_for(package),
        cwd=package,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    try:
        report: Mapping[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}:\n{done.stderr[-2000:]}") from None
    return report


def found_by(defect: Defect) -> str:
    """Returns the regular expression of a finding that shows the defect: none that is classed as known."""
    return rf"^\[(?:defect|unknown)\] (?:{defect['found']})"


def matching(defect: Defect, report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Returns the first finding that shows the defect; None if there is none."""
    for finding in sorted(report["findings"], key=lambda finding: finding["seed"]):
        if re.search(found_by(defect), finding["title"]):
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
        report = explore(defect, package, "--seeds", str(defect["seeds"]))
    finding = matching(defect, report)
    if finding is None:
        return control, f"nothing found in {report['runs']} seeds"
    line = f"seed {finding['seed']} of {report['runs']}: {finding['title']}"
    if not control:
        without = explore(defect, ROOT, "--seed", str(finding["seed"]))["findings"]
        if finding["id"] in [each["id"] for each in without]:
            return False, f"{line}, which comes without the defect, too"
    return not control, line


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
