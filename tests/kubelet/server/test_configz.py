"""The page `/configz` of a node's server."""

import json

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import node_config
from kubeskew.kubelet.server.configz import kubelet_configuration
from kubeskew.kubelet.server.server import Routes
from kubeskew.kubelet.server.stats import NodeView

GATE = "KubeletCrashLoopBackOffMax"


def features_of(minor, gates=None):
    return KubeletFeatures.of(FeatureGates(Version(minor), gates or {}))


@pytest.mark.parametrize(
    ("minor", "gates", "fields"),
    [
        (26, {}, {"kubeAPIQPS": 5, "eventBurst": 10, "failCgroupV1": None, "podLogsDir": None}),
        (27, {}, {"kubeAPIQPS": 50, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock"}),
        (29, {}, {"imageMaximumGCAge": "0s", "containerLogMaxWorkers": None}),
        (31, {}, {"failCgroupV1": False, "crashLoopBackOff": None, "containerLogMaxWorkers": 1}),
        (32, {}, {"crashLoopBackOff": {}, "mergeDefaultEvictionSettings": None}),
        (34, {}, {"failCgroupV1": False, "mergeDefaultEvictionSettings": False}),
        (35, {}, {"failCgroupV1": True, "crashLoopBackOff": {"maxContainerRestartPeriod": "5m0s"}}),
        (35, {GATE: False}, {"crashLoopBackOff": {}, "memoryReservationPolicy": None}),
        (36, {}, {"memoryReservationPolicy": "None", "evictionHard": {
            "imagefs.available": "15%", "imagefs.inodesFree": "5%", "memory.available": "100Mi",
            "nodefs.available": "10%", "nodefs.inodesFree": "5%",
        }}),
    ],
)  # fmt: skip
def test_fields_and_defaults_depend_on_the_release(minor, gates, fields):
    """A field that the release does not have is not there."""
    found = kubelet_configuration(features_of(minor, gates).configuration, {})
    assert {name: found.get(name) for name in fields} == fields


@pytest.mark.parametrize(("minor", "shown"), [(26, None), (27, "unix:///x")])
def test_the_endpoint_of_a_container_runtime(minor, shown):
    """The endpoint of a node's own is shown by releases whose configuration has one."""
    node = node_config({"name": "n", "runtime": "cri", "containerRuntimeEndpoint": "unix:///x"})
    found = kubelet_configuration(features_of(minor).configuration, node.settings)
    assert found.get("containerRuntimeEndpoint") == shown


async def test_the_page_has_the_settings_of_the_node(clock):
    """The settings of a node in the cluster file win over the defaults."""
    node = node_config({"name": "n", "capacity": {"pods": "7"}, "kubeReserved": {"cpu": "1"}})
    view = NodeView("n", clock, None, list, features_of(36), clock.now(), {}, settings=node.settings)
    answer = await Routes(view, None).serve(None, "/configz")
    found = json.loads(answer.body)["kubeletconfig"]
    assert (found["maxPods"], found["kubeReserved"]) == (7, {"cpu": "1"})
    assert found["cpuManagerPolicy"] == "none"
