"""Nodes' statuses: what kubelet and container runtime can do, by release."""

from datetime import UTC, datetime

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.runtime_service import RuntimeHandler, RuntimeStatus
from kubeskew.kubelet.device_managers import PluginCapacity
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.node.object import node_status

FIELDS = ("declaredFeatures", "runtimeHandlers", "features")
RUNTIME = RuntimeStatus((RuntimeHandler(""),), supplemental_groups_policy=True)
GROUPS = {"supplementalGroupsPolicy": True}
DECLARES = {"NodeDeclaredFeatures": True}
IN_1_36 = [
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "RestartAllContainersOnContainerExits",
]


def reported(minor, gates=None, *, runtime=RUNTIME, present=None, **config):
    status = node_status(
        NodeConfig("node-1", **config),
        KubeletFeatures.of(FeatureGates(Version(minor), gates or {})),
        present or {},
        PluginCapacity({}, {}, frozenset()),
        not_ready="",
        runtime=runtime,
        port=10250,
        now=datetime(2026, 1, 1, tzinfo=UTC),
    )
    return {name: status[name] for name in FIELDS if name in status}


def handlers(**features):
    return [{"name": "", "features": features}]


PLAIN = handlers(recursiveReadOnlyMounts=False, userNamespaces=False)


@pytest.mark.parametrize(
    ("minor", "expected"),
    [
        (30, {}),
        (31, {"runtimeHandlers": PLAIN}),
        (32, {"runtimeHandlers": PLAIN}),
        (33, {"runtimeHandlers": PLAIN, "features": GROUPS}),
        (34, {"runtimeHandlers": PLAIN, "features": GROUPS}),
        (35, {"runtimeHandlers": PLAIN, "features": GROUPS}),
        (36, {"runtimeHandlers": PLAIN, "features": GROUPS, "declaredFeatures": IN_1_36}),
    ],
)
def test_a_node_reports_what_real_ones_do(minor, expected):
    """A status has the fields that kubelets of 1.31.14 … 1.36.3 were seen to write with such a runtime."""
    assert reported(minor) == expected


@pytest.mark.parametrize(
    ("minor", "gates", "policy", "expected"),
    [
        (35, DECLARES, "none", ["GuaranteedQoSPodCPUResize"]),
        (35, DECLARES, "static", None),
        (
            35,
            {
                **DECLARES,
                "InPlacePodVerticalScalingExclusiveCPUs": True,
                "RestartAllContainersOnContainerExits": True,
            },
            "static",
            ["GuaranteedQoSPodCPUResize", "RestartAllContainersOnContainerExits"],
        ),
        (36, {"InPlacePodVerticalScalingInitContainers": False}, "static", [*IN_1_36[:2], IN_1_36[3]]),
        (36, {"NodeDeclaredFeatures": False}, "none", None),
    ],
)
def test_gates_and_the_cpu_managers_policy_decide_what_is_declared(minor, gates, policy, expected):
    """A kubelet declares a feature if its gate is on, and in 1.35 resizes of CPUs by the manager's policy."""
    found = reported(minor, gates, cpu_manager_policy=policy, kube_reserved={"cpu": "1"})
    assert found.get("declaredFeatures") == expected


def test_a_kubelet_leaves_what_it_does_not_report():
    """An earlier report stays where the gates are off, as with real kubelets."""
    before = {"declaredFeatures": ["A"], "runtimeHandlers": PLAIN, "features": GROUPS}
    assert reported(30, present=before) == before


def test_handlers_are_those_that_the_runtime_names():
    """A handler has the runtime's word for each feature; 1.30 says nothing about user namespaces. One that
    says nothing about its features has none in the status."""
    runtime = RuntimeStatus((RuntimeHandler("", True, True),), supplemental_groups_policy=None)
    both = handlers(recursiveReadOnlyMounts=True, userNamespaces=True)
    assert reported(35, runtime=runtime) == {"runtimeHandlers": both}
    gates = {"RecursiveReadOnlyMounts": True}
    assert reported(30, gates, runtime=runtime) == {"runtimeHandlers": handlers(recursiveReadOnlyMounts=True)}
