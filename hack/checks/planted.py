#!/usr/bin/env python3
"""Plant known defects, one at a time, in what one command imports, and let `kubeskew explore` find each.

    hack/checks/planted.py [--only NAME]… [--list] [--all-seeds] [--control]

tests/data/planted.yaml holds the defects, each with the seed that shows it. All are looked for from the same
scenario, which was not written for any of them. A defect is found if that seed has a matching finding of no
known bug, and the same seed has none that matches without the defect. A seed is the same run in every
exploration, so one that gets as far as this seed finds it. --all-seeds explores from the first seed on until
something is found; with --control the sources stay as they are meanwhile, and no finding may match. Exits 1
if that fails. The sources are never changed.
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


def explore(defect: Defect, package: Path, seed: int, *, alone: bool = True) -> Mapping[str, Any]:
    """Explores with the defect that lies in a directory: the seed alone, or all seeds up to it."""
    cell = defect.get("cell", CELL)
    command = [sys.executable, "-P"]
    if alone:
        command += [str(Path(__file__).parent / "explored_seed.py"), cell, str(seed)]
    else:
        command += ["-m", "kubeskew", "explore", cell, "-o", "json", "--jobs", "1", "--no-minimize"]
        command += ["--until", found_by(defect), "--seeds", str(seed + 1)]
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
    """Regular expression of a finding that shows the defect: none that is classed as known."""
    return rf"^\[(?:defect|unknown)\] (?:{defect['found']})"


def matching(defect: Defect, report: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """First finding that shows the defect; None if there is none."""
    for finding in sorted(report["findings"], key=lambda finding: finding["seed"]):
        if re.search(found_by(defect), finding["title"]):
            return dict(finding)
    return None


def judge(defect: Defect, *, all_seeds: bool = False, control: bool = False) -> tuple[bool, str]:
    """Plants a defect and explores; False if that did not go as it should. The text is a line about it.

    For control all seeds are explored without the defect.
    """
    last = int(defect["seed"])
    if control:
        found = matching(defect, explore(defect, ROOT, last, alone=False))
        return found is None, _line(found, f"nothing found in {last + 1} seeds")
    with tempfile.TemporaryDirectory(prefix="kubeskew-planted-") as directory:
        try:
            plant(defect, Path(directory))
        except NotPlantedError as error:
            return False, str(error)
        finding = matching(defect, explore(defect, Path(directory), last, alone=not all_seeds))
    if finding is None:
        return False, f"nothing found at seed {last}"
    line = _line(finding)
    without = explore(defect, ROOT, int(finding["seed"]))
    if matching(defect, without) or finding["id"] in [each["id"] for each in without["findings"]]:
        return False, f"{line}, which comes without the defect, too"
    return True, line


def _line(finding: Mapping[str, Any] | None, none: str = "") -> str:
    return none if finding is None else f"seed {finding['seed']}: {finding['title']}"


def main() -> int:
    """Looks for the chosen defects; 1 if one is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument("--list", action="store_true", help="print the defects instead")
    parser.add_argument(
        "--all-seeds", action="store_true", help="explore from the first seed on; takes minutes for each"
    )
    parser.add_argument("--control", action="store_true", help="explore all seeds without the defects")
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
        right, line = judge(defect, all_seeds=arguments.all_seeds, control=arguments.control)
        missed += not right
        print(f"{name} ({time.monotonic() - started:.0f} s): {'' if right else 'WRONG: '}{line}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
