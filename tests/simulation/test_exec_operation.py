"""The scenario operation `exec` in a simulation: a connection is upgraded, and a kubelet runs a command."""

from pathlib import Path

import pytest

from kubeskew.conformance.loader import load
from kubeskew.conformance.results import OperationResult
from kubeskew.simulation.runs import simulate

SCENARIO = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {{cluster: {{version: "1.36", nodes: [{{name: node}}]}}}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {{name: exec}}
spec:
  timeouts: {{assert: 10s, exec: 5s}}
  steps:
  - name: a pod runs
    try:
    - create:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {{name: pod}}
          spec:
            containers:
            - {{name: a, image: busybox, env: [{{name: WHO, value: first}}]}}
            - {{name: b, image: busybox}}
    - assert: {{resource: {{apiVersion: v1, kind: Pod, metadata: {{name: pod}}, status: {{phase: Running}}}}}}
  - name: a command
    try:
    - exec: {operation}
      {meanwhile}
"""


def executed(tmp_path: Path, operation: str, meanwhile: str = "") -> OperationResult:
    """Returns what became of an `exec` in a pod with two containers."""
    path = tmp_path / "exec.yaml"
    path.write_text(SCENARIO.format(operation=operation, meanwhile=meanwhile))
    (cell,) = load(path).cells()
    result = simulate(cell, 0, lambda _: None).result
    done: OperationResult = result.steps[1].operations[0]
    return done


@pytest.mark.parametrize(
    "operation",
    [
        "{name: pod, container: a, command: [printenv, WHO], matches: ^first$}",
        "{name: pod, container: b, command: [printenv, WHO], exitCode: 1}",
        "{name: pod, container: b, command: [sh, -c, 'echo two; exit 3'], exitCode: 3, matches: two}",
    ],
)
def test_a_command_runs_in_a_container(tmp_path: Path, operation: str):
    """It sees the container's environment; its exit code counts, and all that it writes."""
    assert not executed(tmp_path, operation).failed


@pytest.mark.parametrize(
    ("operation", "expected", "found"),
    [
        (
            "{name: pod, container: a, command: [printenv, WHO], matches: second}",
            "`printenv WHO` in pod to write second",
            "first\n",
        ),
        ("{name: pod, container: b, command: ['false']}", "`false` in pod to exit 0", "exit 1: "),
        ("{name: other, command: ['true']}", "`true` in other to be run", "404 Invalid response status"),
        (
            "{name: pod, container: a, command: [sleep, infinity]}",
            "`sleep infinity` in pod to end within 5 s",
            "it was still running",
        ),
    ],
)
def test_a_command_that_does_otherwise_fails_the_step(
    tmp_path: Path, operation: str, expected: str, found: str
):
    """The failure says what was run, what was wanted of it, and what came of it."""
    done = executed(tmp_path, operation)

    assert (done.expected, done.found) == (expected, found)


def test_a_command_is_run_as_somebody(tmp_path: Path):
    """With `as`, the API server asks for that user's rights."""
    done = executed(tmp_path, "{name: pod, command: ['true']}", "as: {user: nobody}")

    assert done.found == "403 Invalid response status"


@pytest.mark.parametrize("command", ["ls", "[]", "[1]"])
def test_a_command_is_a_list_of_texts(tmp_path: Path, command: str):
    """Anything else is a mistake in the scenario."""
    done = executed(tmp_path, f"{{name: pod, command: {command}}}")

    assert done.broken
    assert "exec.command: expected a list of texts" in done.found
