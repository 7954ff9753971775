#!/usr/bin/env python3
"""Plant known defects, one at a time, in a copy of the package, and run the cell that each turns red.

    hack/mutants.py [--only NAME]… [--list]

tests/data/mutants.yaml holds the defects. A defect is found if its cell fails first in the step
that is noted, and what was found there names the component at fault. Exits 1
if one is not found. The sources are never changed.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
MUTANTS = ROOT / "tests" / "data" / "mutants.yaml"
SCENARIOS = ROOT / "conformance" / "scenarios"
SECONDS = 400  # for one cell, on a machine that may be busy
NAMED = {  # how failures name a component
    "apiserver": "kube-apiserver",
    "controller-manager": "kube-controller-manager",
    "scheduler": "scheduler",
    "kubelet": "kubelet/",
    "driver": "gpu.example.com",
    "driver/wrong": "driver/wrong.example.com",
    "driver-controller": "gpu.example.com-controller",
}

Mutant = Mapping[str, str]


class NotPlantedError(Exception):
    """The sources are not as a defect has them."""


def plant(mutant: Mutant, directory: Path) -> None:
    """Copies the package below `directory`, with the defect in it. Raises NotPlantedError."""
    text = (ROOT / mutant["file"]).read_text()
    if text.count(mutant["old"]) != 1:
        raise NotPlantedError(
            f"{mutant['file']} holds the text to replace {text.count(mutant['old'])} times, not once: "
            "bring tests/data/mutants.yaml up to date"
        )
    shutil.copytree(ROOT / "kubeskew", directory / "kubeskew")  # follows the links to the folders at the top
    (directory / "kubeskew" / mutant["file"]).write_text(text.replace(mutant["old"], mutant["new"]))


def scenario_of(cell: str) -> str:
    """Returns the scenario of a cell, whose name the cell's begins with."""
    parts = cell.split("/")
    names = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next(name for name in names if (SCENARIOS / f"{name}.yaml").exists())


def run_cell(cell: str, package: Path) -> Mapping[str, object]:
    """Returns what the report says of a cell, run by the package that lies in a directory."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "kubeskew",
        "matrix",
        scenario_of(cell),
        "--simulate",
        "--only",
        cell,
        "-o",
        "json",
    ]
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    try:
        [found] = json.loads(done.stdout)["cells"]
    except ValueError:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}:\n{done.stderr[-2000:]}") from None
    return dict(found)


def judge(mutant: Mutant, cell: Mapping[str, object]) -> str:
    """Returns why the cell does not show the defect; empty if it does."""
    failure = str(cell["failure"])
    if cell["result"] != "failed":
        return f"{mutant['cell']} is green: {cell['result']}"
    if not failure.startswith(f"{mutant['step']}: "):
        return f"another step fails first: {failure}"
    found = re.search(mutant["found"], failure, re.DOTALL)
    if not found:
        return f"the failure does not match {mutant['found']}: {failure}"
    if NAMED[mutant["component"]] not in found[0]:
        return f"what matches does not name {NAMED[mutant['component']]}: {found[0]}"
    return ""


def main() -> int:
    """Run the mutants that are chosen; gives the exit status."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument("--list", action="store_true", help="print the defects instead")
    arguments = parser.parse_args()
    mutants = {mutant["name"]: mutant for mutant in yaml.safe_load(MUTANTS.read_text())}
    if unknown := [name for name in arguments.only if name not in mutants]:
        parser.error(f"there is no mutant {', '.join(unknown)}; there are {', '.join(mutants)}")
    missed = 0
    for name, mutant in mutants.items():
        if arguments.only and name not in arguments.only:
            continue
        if arguments.list:
            print(f"{name:22} {mutant['component']:20} {mutant['breaks']}")
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="kubeskew-mutant-") as directory:
            try:
                plant(mutant, Path(directory))
                cell = run_cell(mutant["cell"], Path(directory))
            except NotPlantedError as error:
                cell, why = {}, str(error)
            else:
                why = judge(mutant, cell)
        missed += bool(why)
        verdict = f"NOT FOUND: {why}" if why else f"found by {mutant['cell']}: {cell['failure']}"
        print(f"{name} ({time.monotonic() - started:.0f} s): {verdict}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
