#!/usr/bin/env python3
"""Plant known defects, one at a time, in what one command imports, and run the cell that each turns red.

    hack/checks/mutants.py [--only NAME]… [--list] [--table FILE]

tests/data/mutants.yaml holds the defects. A defect is found if its cell fails first in the step
that is noted, and the failure names the component at fault, where failures say whose fault they are;
that a component is named among others is not enough. Exits 1 if one is not found. The sources are
never changed. --table FILE writes the results as docs/mutants.md has them.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml

from kubeskew.cluster.processes import environment

ROOT = Path(__file__).resolve().parents[2]
MUTANTS = ROOT / "tests" / "data" / "mutants.yaml"
SCENARIOS = ROOT / "conformance" / "scenarios"
SECONDS = 400  # for one cell, on a machine that may be busy
NAMED = {  # how failures name a component, nodes by their names behind the slash
    "apiserver": "kube-apiserver",
    "controller-manager": "kube-controller-manager",
    "scheduler": "kube-scheduler",
    "kubelet": "kubelet/",
    "driver": "gpu.example.com",
    "driver/mig": "mig.example.com",
    "driver/wrong": "driver/wrong.example.com",
    "driver-controller": "gpu.example.com-controller",
}

# What stands before the component that a failure is laid to; conformance/evidence writes it. Others are named
# behind `before by`, or as those that merely bound a pod and gave it devices.
AT_FAULT = re.compile(
    r"(?:\(written by (?:the scenario through )?|\((?:the object was )?last written by |\(left so by "
    r"|\(answered by |\nrun by |\(bound to \S+ by |not reserved for it, given [^;]*? by |to be deleted as "
    r"|prepared by |injected by |\(CDI devices of |expected a line of |found )$"
)

TABLE = """# Planted defects

What `make mutants` found: for each defect of `tests/data/mutants.yaml` the cell that turns red, its first
step that fails, and the component to which the failure lays it. This page is written by
`hack/checks/mutants.py --table docs/mutants.md`.

| defect | component | what it breaks | found by | laid to |
| --- | --- | --- | --- | --- |
"""

Mutant = Mapping[str, str]
# Python imports `sitecustomize` when it starts.
PLANTING = """
import importlib.util
import sys


class Planted:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            return importlib.util.spec_from_file_location(name, {source!r})


sys.meta_path.insert(0, Planted())
"""


class NotPlantedError(Exception):
    """The sources are not as a defect has them."""


def plant(mutant: Mutant, directory: Path) -> None:
    """Writes the module with the defect below `directory`, and a sitecustomize.py that loads it in place of
    the real one.

    All other modules stay in their places, with their bytecode. Raises NotPlantedError.
    """
    text = (ROOT / mutant["file"]).read_text()
    if text.count(mutant["old"]) != 1:
        raise NotPlantedError(
            f"{mutant['file']} holds the text to replace {text.count(mutant['old'])} times, not once: "
            "bring tests/data/mutants.yaml up to date"
        )
    source = directory / "defect.py"
    source.write_text(text.replace(mutant["old"], mutant["new"]))
    module = ".".join(("kubeskew", *Path(mutant["file"]).with_suffix("").parts))
    (directory / "sitecustomize.py").write_text(PLANTING.format(module=module, source=str(source)))


def environment_for(directory: Path) -> dict[str, str]:
    """Python finds the defect in the directory first."""
    path = os.pathsep.join(map(str, (directory, ROOT)))
    return {**os.environ, **environment(os.environ), "PYTHONPATH": path}


def scenario_of(cell: str) -> str:
    """A cell's name begins with that of its scenario."""
    parts = cell.split("/")
    names = ("/".join(parts[:length]) for length in range(1, len(parts) + 1))
    return next(name for name in names if (SCENARIOS / f"{name}.yaml").exists())


def run_cell(cell: str, directory: Path) -> Mapping[str, object]:
    """Entry of the cell in the report, run with the defect in the directory."""
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
    done = subprocess.run(
        command,
        env=environment_for(directory),
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    try:
        [found] = json.loads(done.stdout)["cells"]
    except ValueError:
        raise SystemExit(f"{' '.join(command)}: exit {done.returncode}:\n{done.stderr[-2000:]}") from None
    return dict(found)


def cpu_of_children() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def judge(mutant: Mutant, cell: Mapping[str, object]) -> str:
    """Reason why the cell does not show the defect; empty if it does."""
    failure = str(cell["failure"])
    if cell["result"] != "failed":
        return f"{mutant['cell']} is green: {cell['result']}"
    if not failure.startswith(f"{mutant['step']}: "):
        return f"another step fails first: {failure}"
    found = re.search(mutant["found"], failure, re.DOTALL)
    if not found:
        return f"the failure does not match {mutant['found']}: {failure}"
    fault = found["fault"]
    named = NAMED[mutant["component"]]
    if not (fault.startswith(named) if named.endswith("/") else fault.partition(" ")[0] == named):
        return f"what is at fault is not {named}: {fault}"
    if not AT_FAULT.search(failure[: found.start("fault")]):
        return f"{fault} is named, but not as the one at fault: {failure}"
    return ""


def row(mutant: Mutant, cell: Mapping[str, object], why: str) -> str:
    """Line of a defect in the table of results."""
    found = re.search(mutant["found"], str(cell.get("failure")), re.DOTALL)
    laid_to = found["fault"] if found and not why else f"not found: {why}"
    place = f"`{mutant['cell']}`: {mutant['step']}"
    return f"| {mutant['name']} | {mutant['component']} | {mutant['breaks']} | {place} | {laid_to} |"


def main() -> int:
    """Runs the chosen mutants; 1 if one is not found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="repeatable")
    parser.add_argument("--table", metavar="FILE", help="write the results there, as Markdown")
    parser.add_argument("--list", action="store_true", help="print the defects instead")
    arguments = parser.parse_args()
    mutants = {mutant["name"]: mutant for mutant in yaml.safe_load(MUTANTS.read_text())}
    if unknown := [name for name in arguments.only if name not in mutants]:
        parser.error(f"there is no mutant {', '.join(unknown)}; there are {', '.join(mutants)}")
    missed, rows = 0, []
    for name, mutant in mutants.items():
        if arguments.only and name not in arguments.only:
            continue
        if arguments.list:
            print(f"{name:22} {mutant['component']:20} {mutant['breaks']}")
            continue
        started, used = time.monotonic(), cpu_of_children()
        with tempfile.TemporaryDirectory(prefix="kubeskew-mutant-") as directory:
            try:
                plant(mutant, Path(directory))
                cell = run_cell(mutant["cell"], Path(directory))
            except NotPlantedError as error:
                cell, why = {}, str(error)
            else:
                why = judge(mutant, cell)
        missed += bool(why)
        rows.append(row(mutant, cell, why))
        verdict = f"NOT FOUND: {why}" if why else f"found by {mutant['cell']}: {cell['failure']}"
        times = f"{time.monotonic() - started:.0f} s, {cpu_of_children() - used:.1f} s of CPU"
        print(f"{name} ({times}): {verdict}", flush=True)
    if arguments.table:
        Path(arguments.table).write_text(TABLE + "\n".join(rows) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
