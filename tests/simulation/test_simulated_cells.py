"""Cells in simulations: their verdicts, and that a seed decides every byte of their logs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubeskew.cli.commands.scenarios import run as run_command
from kubeskew.cluster.failures import UserError
from kubeskew.conformance import matrix
from kubeskew.conformance.loader import load
from kubeskew.conformance.scenario import Cell
from kubeskew.simulation.runs import Simulated, Trace, simulate

CELL = "kep-5004/upgrade-downgrade/explicit/1.35-1.36-1.35"


def cell(name: str) -> Cell:
    """The cell of a name, of the scenarios that are shipped."""
    scenario = "/".join(name.split("/")[:2])
    (found,) = matrix.of_scenarios((scenario,)).cells((name,))
    return found


def run(name: str, seed: int = 0) -> Simulated:
    return simulate(cell(name), seed, lambda _: None)


def hash_in_another_process(name: str, hash_seed: str) -> str:
    """The hash of a cell's log where strings hash otherwise."""
    code = (
        "import sys; from kubeskew.conformance import matrix;"
        "from kubeskew.simulation.runs import simulate;"
        "(cell,) = matrix.of_scenarios((sys.argv[1],)).cells((sys.argv[2],));"
        "print(simulate(cell, 0, lambda _: None).log_hash)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "/".join(name.split("/")[:2]), name],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.strip()


LOGGED = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {cluster: {nodes: []}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: logged}
spec:
  steps:
  - name: the scheduler starts again
    try:
    - restart: {component: scheduler}
    - logs: {component: scheduler, match: successfully acquired lease, count: 1}
"""


def test_a_step_finds_what_was_logged_since_it_began(tmp_path: Path):
    """The logs of simulated processes have times: a step sees its own lines, and none from before."""
    (tmp_path / "logged.yaml").write_text(LOGGED)
    (found,) = load(tmp_path / "logged.yaml").cells()

    assert simulate(found, 0, lambda _: None).result.failure == ""


VERBOSE = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {cluster: {nodes: [], verbosity: ($verbosity)}, parameters: {verbosity: [0, 5]}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: verbose}
spec:
  steps:
  - name: a pod finds no node
    try:
    - create:
        resource:
          {apiVersion: v1, kind: Pod, metadata: {name: pod}, spec: {containers: [{name: c, image: busybox}]}}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: pod}, status: {(length(conditions)): 1}}
    - logs:
        component: scheduler
        match: Unable to schedule pod; no nodes are registered
        count: "($verbosity == `5` && `1` || `0`)"
"""


def test_a_cluster_is_as_verbose_as_its_header_says(tmp_path: Path):
    """Simulated processes log at the verbosity of their cluster, also after one that was more verbose."""
    (tmp_path / "verbose.yaml").write_text(VERBOSE)
    quiet, verbose = load(tmp_path / "verbose.yaml").cells()

    for found in (quiet, verbose, quiet):
        assert simulate(found, 0, lambda _: None).result.failure == ""


@pytest.mark.timeout(600)  # an interpreter of its own imports everything again
def test_a_seed_decides_the_log():
    """One seed gives one log, here and where strings hash otherwise; another seed gives another."""
    first, second, other = run(CELL), run(CELL), run(CELL, seed=1)
    assert [each.result.outcome for each in (first, second, other)] == ["passed"] * 3
    assert first.failures == []
    assert {second.log_hash, hash_in_another_process(CELL, "1")} == {first.log_hash}
    assert other.log_hash != first.log_hash


PLAN = {
    "seed": 3,
    "faults": [
        {"id": "order", "order": "processes"},
        {"id": "latency", "latency": {"usual": "3ms", "rare": "90ms", "share": 0.05}},
        {"id": "crash", "component": "scheduler", "verb": "update", "nth": 2, "crash": "after", "back": "1s"},
    ],
}


@pytest.mark.timeout(600)  # an interpreter of its own imports everything again
def test_a_plan_is_played_from_a_file(tmp_path: Path):
    """The command plays the plan, the same here and where strings hash otherwise, with the plan's seed unless
    another is given, and shows what fired."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(PLAN))
    arguments = ["dra/kubelet/1.36", "--simulate", "--faults", str(path), "-o", "json"]
    here = CliRunner().invoke(run_command, arguments)
    command = [sys.executable, "-m", "kubeskew", "run", *arguments, "--seed", "3"]
    environment = {**os.environ, "PYTHONHASHSEED": "2"}
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(here.stdout)
    assert found == json.loads(there.stdout)
    assert [each["fault"] for each in found["faults"] if each["fired"]] == ["order", "latency", "crash"]
    assert any(point.startswith("crash: scheduler after update ") for point in found["points"])


@pytest.mark.parametrize(
    ("content", "arguments", "line"),
    [
        ('{"faults": [{"id": "a", "meteor": 1}]}', ["--simulate"], "plan.json: fault a: expected one of "),
        ('{"faults": []}', [], "--faults is of simulations: add --simulate"),
        ('{"faults": []}', ["--simulate", "--keep"], "--keep: cannot be combined with --faults"),
    ],
)
def test_a_plan_that_cannot_be_played_is_wrong_usage(
    tmp_path: Path, content: str, arguments: list[str], line: str
):
    """One line says why."""
    path = tmp_path / "plan.json"
    path.write_text(content)
    result = CliRunner().invoke(
        run_command, ["dra/kubelet/1.36", *arguments, "--faults", str(path)], standalone_mode=False
    )
    assert isinstance(result.exception, UserError)
    assert line in str(result.exception)


def test_a_trace_names_the_first_step_that_differs():
    """Runs of one seed do the same step by step; those of two seeds part, and the step is reported."""
    first = Trace()
    simulate(cell("kep-4815/refused-pools/1.35/unknown-counter"), 1, lambda _: None, trace=first)
    same, other = Trace(first), Trace(first)
    simulate(cell("kep-4815/refused-pools/1.35/unknown-counter"), 1, lambda _: None, trace=same)
    simulate(cell("kep-4815/refused-pools/1.35/unknown-counter"), 2, lambda _: None, trace=other)
    assert (same.difference, len(same.steps)) == ("", len(first.steps))
    assert other.difference.startswith("step ")


def test_the_report_carries_seed_and_hash(tmp_path: Path):
    """The seed that was given, and the hash of the log itself."""
    arguments = ["kep-5004/upgrade-downgrade", "--only", CELL, "--simulate", "--seed", "7"]
    result = CliRunner().invoke(run_command, [*arguments, "--report", str(tmp_path)])
    assert result.exit_code == 0, result.output
    (reported,) = json.loads((tmp_path / "report.json").read_text())["cells"]
    assert (reported["seed"], reported["logHashOf"]) == (7, "log")
    assert reported["logHash"] == run(CELL, seed=7).log_hash


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--seed", "1"], "--seed is of simulations: add --simulate, or leave it out"),
        (["--simulate", "--keep"], "--keep: a simulation has no state directory that could be looked at"),
        (["--simulate", "--kubeconfig", __file__], "choose one: --kubeconfig runs on that cluster"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(arguments: list[str], line: str):
    """One line says which, and what to do."""
    command = [sys.executable, "-m", "kubeskew", "run", "kep-5004/upgrade-downgrade", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert line in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_script_cannot_see_a_simulated_cluster():
    """A scenario that runs other programs fails with the reason in the place of hanging."""
    result = run("classic/controller-process").result
    assert "no other program can see a simulated cluster: leave out --simulate" in result.failure
