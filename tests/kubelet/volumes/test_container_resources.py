"""The resources of containers as cgroups take them."""

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.containers.runtime_service import ContainerResources
from kubeskew.kubelet.features import ContainerFeatures
from kubeskew.kubelet.volumes.container_resources import container_resources, oom_score_adjustment

GIB = 1 << 30


def features(version="1.36", gates=""):
    parsed = Version.parse(version)
    return ContainerFeatures.of(FeatureGates.parse(parsed, gates))


def container(requests=None, limits=None, name="c", **more):
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod_of(*containers, quality="Burstable", **spec):
    return {"metadata": {}, "spec": {"containers": [*containers], **spec}, "status": {"qosClass": quality}}


@pytest.mark.parametrize(
    ("requests", "limits", "expected"),
    [
        ({}, {}, (2, 0, 0)),
        ({"cpu": "500m"}, {}, (512, 0, 0)),
        ({"cpu": "1m"}, {"cpu": "1m"}, (2, 1000, 0)),
        ({}, {"cpu": "2"}, (2048, 200000, 0)),
        ({"cpu": "0"}, {"cpu": "2"}, (2, 200000, 0)),
        ({"cpu": "500"}, {"memory": "1Gi"}, (262144, 0, GIB)),
    ],
)
def test_shares_quota_and_memory(requests, limits, expected):
    """Shares follow the request, or the limit without one; the quota and the memory follow the limits."""
    spec = container(requests, limits)
    found = container_resources(pod_of(spec), spec, 8 * GIB, features())
    assert (found.cpu_shares, found.cpu_quota, found.memory_bytes, found.cpu_period) == (*expected, 100000)


def test_all_of_a_best_effort_container():
    """A container without resources has the least shares and is killed first."""
    spec = container()
    found = container_resources(pod_of(spec, quality="BestEffort"), spec, 8 * GIB, features())
    assert found == ContainerResources(cpu_shares=2, cpu_period=100000, oom_score_adjustment=1000)


@pytest.mark.parametrize(("version", "expected"), [("1.36", (512, 100000)), ("1.31", (512, 0))])
def test_limits_of_the_pod(version, expected):
    """A container without limits has the pod's as its own, where pods have resources."""
    spec = container({"cpu": "500m"})
    pod = pod_of(spec, resources={"limits": {"cpu": "1"}})
    found = container_resources(pod, spec, 8 * GIB, features(version))
    assert (found.cpu_shares, found.cpu_quota) == expected


@pytest.mark.parametrize(("version", "quota"), [("1.36", -1), ("1.32", 200000)])
def test_exclusive_cpus(version, quota):
    """A container with CPUs of its own has no quota since 1.33."""
    spec = container({"cpu": "2"}, {"cpu": "2"})
    found = container_resources(pod_of(spec), spec, 8 * GIB, features(version), "2-3")
    assert (found.cpuset, found.cpu_quota) == ("2-3", quota)


@pytest.mark.parametrize(
    ("quality", "memory", "spec", "score"),
    [
        ("Guaranteed", "1Gi", {}, -997),
        ("BestEffort", "0", {}, 1000),
        ("BestEffort", "0", {"priority": 2000001000, "priorityClassName": "system-node-critical"}, -997),
        ("Burstable", "0", {}, 999),
        ("Burstable", "2Gi", {}, 750),
        ("Burstable", "8Gi", {}, 3),
        ("Burstable", "1Gi", {"resources": {"requests": {"memory": "3Gi"}}}, 625),
    ],
)
def test_oom_score(quality, memory, spec, score):
    """The more of the node's memory a container asks for, the later it is killed."""
    own = container({"memory": memory})
    assert oom_score_adjustment(pod_of(own, quality=quality, **spec), own, 8 * GIB, features()) == score


@pytest.mark.parametrize(("version", "score"), [("1.36", 500), ("1.31", 999)])
def test_oom_score_of_a_sidecar(version, score):
    """Since 1.32 a sidecar is killed no sooner than the container that asks for the least memory."""
    sidecar = container({}, name="s", restartPolicy="Always")
    pod = pod_of(container({"memory": "4Gi"}), initContainers=[sidecar])
    assert oom_score_adjustment(pod, sidecar, 8 * GIB, features(version)) == score


def test_oom_score_by_allocation():
    """Up to 1.31 with in-place resizing, what was allocated counts."""
    own = container({"memory": "4Gi"})
    pod = pod_of(own)
    pod["status"]["containerStatuses"] = [{"name": "c", "allocatedResources": {"memory": "2Gi"}}]
    found = features("1.31", "InPlacePodVerticalScaling=true")
    assert oom_score_adjustment(pod, own, 8 * GIB, found) == 750
