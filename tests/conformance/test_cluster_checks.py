"""Scenarios whose clusters or components cannot be: refused before anything is started."""

from pathlib import Path

import pytest

from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.matrix import find

HEAD = """
apiVersion: kubeskew.io/v1alpha1
kind: Scenario
spec:
  cluster: %s
  parameters: {part: [scheduler, kubelet/a], which: {subsets: [apiserver, scheduler]}}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: t}
spec:
  steps:
  - name: changes
    try: [%s]
"""
CLUSTER = "{version: '1.35', nodes: [{name: a, drivers: [{name: gpu.example.com, devices: 1}]}]}"


def check(folder: Path, operation: str, cluster: str = CLUSTER) -> None:
    path = folder / "mine.yaml"
    path.write_text(HEAD % (cluster, operation))
    find(str(path))


@pytest.mark.parametrize(
    "operation",
    [
        "{gates: {set: {DRAExtendedResource: false}, components: ($which.out)}}",
        "{gates: {set: {AllAlpha: true, DRAExtendedResource: null}, components: [kubelet/a, apiserver]}}",
        "{restart: {component: ($part)}}",
        "{kill: {component: driver/gpu.example.com}}",
        "{upgrade: {to: '1.36', components: [kubelet]}}",
        "{driver: {name: gpu.example.com, node: a, vanish: true}}",
        "{prepared: {node: a, count: 0}}",
        "{kubelet: {node: a, removeFiles: [x], set: {cpuManagerPolicy: none}, file: x, absent: true}}",
        "{fault: {component: scheduler, verb: update, resource: pods, nth: 1, answer: 409}}",
    ],
)
def test_operations_that_can_be_done_are_taken(tmp_path: Path, operation: str):
    """Components are named by kind or by name, gates by their names in any release."""
    check(tmp_path, operation)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        (
            "{gates: {set: {DRAExtendedResources: true}}}",
            r"no release has a gate .*; did you mean DRAExtendedResource\?$",
        ),
        ("{gates: {set: {DRAExtendedResource: maybe}}}", "DRAExtendedResource: expected true or false"),
        (
            "{gates: {set: {}, components: [schedular]}}",
            "components: there is no component .* did you mean scheduler",
        ),
        ("{gates: {set: {}, components: scheduler}}", "expected a list of components, found 'scheduler'"),
        ("{restart: {component: kubelet/b}}", "component: there is no component kubelet/b; .* kubelet/a"),
        (
            "{restart: {component: apiserver-2}}",
            "there is no component apiserver-2; .*; did you mean apiserver",
        ),
        (
            "{upgrade: {to: 1.3}}",
            'version 1.3 is not supported: .*; YAML reads 1.30 as the number 1.3: write "1.30"',
        ),
        ("{upgrade: {to: '1.63'}}", r"steps\[0\].try\[0\].upgrade.to: version 1.63 is not supported"),
        ("{driver: {name: gpu.exmple.com, vanish: true}}", "did you mean driver/gpu.example.com"),
        ("{kubelet: {node: b, file: x}}", "kubelet.node: there is no node b; known are a"),
        ("{kubelet: {node: a, set: {cpuManagerPolicy: statik}}}", "expected none or static, found 'statik'"),
        (
            "{kubelet: {node: a, set: {cpuPolicy: none}}}",
            "kubelet.set: unknown key cpuPolicy; known are cpuManagerPolicy",
        ),
        ("{driver: {name: gpu.example.com, node: b, vanish: true}}", "node: there is no node b; known are a"),
    ],
)
def test_operations_that_cannot_be_done_are_refused(tmp_path: Path, operation: str, message: str):
    """A misspelt operation is reported once, with its file, its place and the likely spelling."""
    with pytest.raises(ScenarioError, match=message) as caught:
        check(tmp_path, operation)
    assert str(caught.value).startswith(f"{tmp_path / 'mine.yaml'}:14: spec.steps[0].try[0].")


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        ("{versoin: '1.35'}", "cluster: unknown key 'versoin'; .*; did you mean version"),
        (
            "{featureGates: {DRAExtendedResorce: true}}",
            "featureGates: unrecognized .*; did you mean DRAExtendedResource",
        ),
        (
            "{components: {schedular: {}}}",
            "components: there is no component schedular; .*; did you mean scheduler",
        ),
        (
            "{components: {scheduler: {featureGates: {Nothing: true}}}}",
            "scheduler at 1.36: unrecognized feature gate",
        ),
        ("{components: {scheduler: {version: '1.37'}}}", "unsupported version skew: scheduler 1.37 is newer"),
        ("{ha: 0}", "ha: expected the number of API servers, 1 to 9, found 0"),
        ("{ha: 2, components: {apiserver: {}, apiserver-3: {}}}", "there is no component apiserver-3"),
    ],
)
def test_clusters_that_cannot_be_started_are_refused(tmp_path: Path, cluster: str, message: str):
    """The header's cluster is checked for every cell when the file is read."""
    with pytest.raises(ScenarioError, match=message):
        check(tmp_path, "{sleep: {duration: 1s}}", cluster)


def test_a_cluster_may_have_several_servers(tmp_path: Path):
    """`ha` gives the number of API servers, whose names operations can use."""
    check(tmp_path, "{restart: {component: apiserver-2}}", "{ha: 2, nodes: [{name: a}]}")
