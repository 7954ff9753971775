"""The evidence that a cell leaves: lives, calls of drivers, times of steps, logs of what failed."""

from datetime import UTC, datetime
from pathlib import Path

from kubeskew.conformance.loader import load
from kubeskew.conformance.report import Repeating, Run, as_json
from kubeskew.conformance.results import CellResult
from kubeskew.simulation.runs import simulate

_STARTED = datetime(2026, 1, 1, tzinfo=UTC)

FAILS = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec: {cluster: {nodes: [{name: node-1, drivers: [{name: gpu.example.com, devices: 1}]}]}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: fails}
spec:
  timeouts: {assert: 5s}
  steps:
  - name: a pod gets a device
    try:
    - create:
        resource:
          apiVersion: resource.k8s.io/v1
          kind: ResourceClaim
          metadata: {name: gpu}
          spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu}}]}}
    - create:
        resource:
          apiVersion: resource.k8s.io/v1
          kind: DeviceClass
          metadata: {name: gpu}
          spec: {selectors: [{cel: {expression: device.driver == "gpu.example.com"}}]}
    - create:
        resource:
          apiVersion: v1
          kind: Pod
          metadata: {name: web}
          spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu}], containers: [{name: a, image: a}]}
    - assert:
        resource: {apiVersion: v1, kind: Pod, metadata: {name: web}, status: {phase: Running}}
  - name: it is said to have failed
    try:
    - assert:
        timeout: 1s
        resource: {apiVersion: v1, kind: Pod, metadata: {name: web}, status: {phase: Failed}}
"""


def fails(folder: Path) -> CellResult:
    path = folder / "fails.yaml"
    path.write_text(FAILS)
    (cell,) = load(path).cells()
    return simulate(cell, 7, lambda _: None).result


def test_a_failed_cell_shows_what_went_on(tmp_path: Path):
    """The claim's life, the driver's call, times of steps, logs, and what repeats it are there."""
    result = fails(tmp_path)
    [claim] = [life for life in result.objects if life.resource.startswith("resourceclaims.")]
    [call] = result.calls
    first, second = result.steps
    again = Repeating(["kubeskew", "matrix", "fails"], {"fails": "fails.yaml"})
    [cell_shown] = as_json(Run("fails", _STARTED, [result], repeating=again))["cells"]

    assert [event.what for event in claim.events] == [
        "created",
        "allocated gpu.example.com/node-1/gpu-0",
        "reserved for web",
    ]
    assert (call.driver, call.node, call.name, call.unprepares) == ("gpu.example.com", "node-1", "gpu", False)
    assert result.began < first.since < first.until <= second.since <= second.until <= result.ended
    assert first.since < call.time < first.until
    assert {"apiserver", "scheduler", "controller-manager"} <= result.logs.keys()
    assert any(result.logs.values())
    assert cell_shown["command"] == "kubeskew matrix fails.yaml --only fails --simulate --seed 7"


def test_a_pod_without_a_log_is_reported_with_its_warnings(tmp_path: Path):
    """Of a pod that never ran the failure of `podLogs` says why it waits, as that of an assertion does."""
    header = "spec: {cluster: {nodes: [{name: node-1}]}}"
    spec = "{nodeSelector: {a: b}, containers: [{name: a, image: a}]}"
    pod = f"{{apiVersion: v1, kind: Pod, metadata: {{name: web}}, spec: {spec}}}"
    path = tmp_path / "waits.yaml"
    path.write_text(
        f"apiVersion: kubeskew.io/v1alpha1\nkind: Scenario\n{header}\n---\n"
        "apiVersion: chainsaw.kyverno.io/v1alpha1\nkind: Test\nmetadata: {name: waits}\nspec:\n  steps:\n"
        f"  - name: a pod waits\n    try:\n    - create: {{resource: {pod}}}\n"
        "    - podLogs: {name: web, matches: x, timeout: 2s}\n"
    )
    (cell,) = load(path).cells()

    failure = simulate(cell, 0, lambda _: None).result.failure

    assert "found an empty log; FailedScheduling of Pod web: 0/1 nodes are available: 1 node(s)" in failure
