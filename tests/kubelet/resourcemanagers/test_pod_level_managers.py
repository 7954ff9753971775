"""Tests the managers of CPUs and memory with pods that ask for resources as a whole."""

from pathlib import Path

import orjson
import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.device_managers import DeviceError, EmptyPodSharedPoolError
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import FilesInMemory
from kubeskew.kubelet.node.config import node_config
from kubeskew.kubelet.restoration import resource_managers

GIB = 1 << 30
GATE = {"PodLevelResourceManagers": True}


def managers(files, minor=37, scope="pod", bugs=None, **gates):
    """Returns the managers of a node with eight CPUs and 8 GiB, of which one each is reserved."""
    version = Version(minor)
    settings = {
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "topologyManagerScope": scope,
        "kubeReserved": {"cpu": "1", "memory": "1Gi"},
        "capacity": {"cpu": "8", "memory": "8Gi"},
    }
    on = GATE if minor == 36 else {}
    found = resource_managers(
        node_config({"name": "n", **settings}),
        Path(),
        KubeletFeatures.of(FeatureGates(version, {**on, **gates}, bugs)),
        files,
    )
    for manager in found:
        manager.start()
    return found


def admit(found, pod):
    for manager in found:
        manager.allocate(pod)


def container(name, cpu, **fields):
    """Returns a container with as many CPUs and GiB, or with none."""
    amounts = {"cpu": cpu, "memory": f"{cpu}Gi"}
    resources = {} if cpu is None else {"requests": amounts, "limits": amounts}
    return {"name": name, "resources": resources, **fields}


def pod(uid, whole, *containers, init=()):
    amounts = {"cpu": whole, "memory": f"{whole}Gi"}
    spec = {
        "resources": {"requests": amounts, "limits": amounts},
        "containers": [container(*each) for each in containers],
        "initContainers": [*init],
    }
    return {"metadata": {"uid": uid}, "spec": spec, "status": {"qosClass": "Guaranteed"}}


def cpus(files):
    """Returns (shared, of pods, of containers by pod) of the file."""
    content = orjson.loads(files.contents["cpu_manager_state"])
    content = orjson.loads(content["data"]) if "data" in content else content
    of_pods = {uid: entry["cpuSet"] for uid, entry in content.get("podEntries", {}).items()}
    return content["defaultCpuSet"], of_pods, content.get("entries", {})


def memory(files):
    """Returns (free, of pods, of containers by pod) of the file, in GiB."""
    content = orjson.loads(files.contents["memory_manager_state"])
    content = orjson.loads(content["data"]) if "data" in content else content

    def sizes(blocks):
        return [block["size"] // GIB for block in blocks]

    return (
        content["machineState"]["0"]["memoryMap"]["memory"]["free"] // GIB,
        {uid: sizes(entry["memoryBlocks"]) for uid, entry in content.get("podEntries", {}).items()},
        {
            uid: {name: sizes(blocks) for name, blocks in of_pod.items()}
            for uid, of_pod in content.get("entries", {}).items()
        },
    )


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("asking", "of_cpus", "of_memory"),
    [
        (
            pod("a", 5, ("c", 3), ("d", None), ("e", None)),
            {"c": "1-3", "d": "4-5", "e": "4-5"},
            {"c": [3], "d": [2], "e": [2]},
        ),
        (pod("a", 4, ("c", None), ("d", None)), {"c": "1-4", "d": "1-4"}, {"c": [4], "d": [4]}),
        (pod("a", 5, ("c", 3), ("d", 1)), {"c": "1-3", "d": "4"}, {"c": [3], "d": [1]}),
        (
            pod("a", 4, ("c", 2), init=[container("s", 2, **SIDECAR), container("i", None)]),
            {"s": "1-2", "i": "3-4", "c": "3-4"},
            {"s": [2], "i": [2], "c": [2]},
        ),
        (
            pod("a", 3, ("c", 2), init=[container("s", None, **SIDECAR)]),
            {"s": "3", "c": "1-2"},
            {"s": [1], "c": [2]},
        ),
        (
            pod("a", 2, ("c", 2), init=[container("i", 2), container("j", 2)]),
            {"i": "1-2", "j": "1-2", "c": "1-2"},
            {"i": [2], "j": [2], "c": [2]},
        ),
    ],
)
@pytest.mark.parametrize("minor", [36, 37])
def test_a_pod_is_given_what_it_asks_for_as_a_whole(minor, asking, of_cpus, of_memory):
    """Guaranteed containers have parts for themselves, as in KEP-5526 and upstream's tests; others share."""
    files = FilesInMemory({})
    found = managers(files, minor)
    admit(found, asking)
    whole = int(asking["spec"]["resources"]["requests"]["cpu"])
    shared, of_pods, entries = cpus(files)
    assert (of_pods, entries) == ({"a": f"1-{whole}"}, {"a": of_cpus})
    assert memory(files) == (7 - whole, {"a": [whole]}, {"a": of_memory})
    for manager in found:
        manager.collect({})
    assert cpus(files) == ("0-7", {}, {})
    assert memory(files) == (7, {}, {})
    assert shared != "0-7"


def test_a_whole_is_given_back_with_the_last_of_its_containers():
    """While one container of the pod is there the others' parts stay with the pod."""
    files = FilesInMemory({})
    found = managers(files)
    admit(found, pod("a", 4, ("c", 2), ("d", None)))
    for manager in found:
        manager.collect({"a": {"d"}})
    assert cpus(files) == ("0,5-7", {"a": "1-4"}, {"a": {"d": "3-4"}})
    assert memory(files) == (3, {"a": [4]}, {"a": {"d": [2]}})


@pytest.mark.parametrize(
    ("scope", "minor", "gate", "given"),
    [("container", 37, True, {"a": {"c": "1-2"}}), ("pod", 37, False, {}), ("pod", 35, None, {})],
)
def test_otherwise_a_pod_has_nothing_as_a_whole(scope, minor, gate, given):
    """In the scope of containers those that qualify have CPUs; without the gate none has."""
    files = FilesInMemory({})
    gates = {} if gate is None else {"PodLevelResourceManagers": gate}
    cpu_manager, *_ = managers(files, minor, scope, **gates)
    cpu_manager.allocate(pod("a", 4, ("c", 2), ("d", None)))
    assert cpus(files)[1:] == ({}, given)


def test_a_container_whose_memory_is_not_limited_as_requested_shares():
    """Requests that are the limits of CPUs alone are not enough where the pod asks as a whole."""
    files = FilesInMemory({})
    cpu_manager, *_ = managers(files)
    asking = pod("a", 4, ("c", 2))
    asking["spec"]["containers"][0]["resources"]["limits"] = {"cpu": 2, "memory": "3Gi"}
    cpu_manager.allocate(asking)
    assert cpus(files)[2] == {"a": {"c": "1-4"}}


def test_a_whole_that_is_no_whole_number_of_cpus_is_shared_by_the_node():
    """Such a pod runs on what all pods share."""
    files = FilesInMemory({})
    cpu_manager, *_ = managers(files)
    asking = pod("a", 4, ("c", 2))
    asking["spec"]["resources"] = {"requests": {"cpu": "3500m", "memory": "4Gi"}}
    cpu_manager.allocate(asking)
    assert cpus(files) == ("0-7", {}, {})


EQUAL = (
    "pod rejected, sum of exclusive container {} requests equals pod budget, leaving no {} for shared "
    "containers"
)


@pytest.mark.parametrize(
    ("manager", "asking", "text"),
    [
        (0, pod("a", 5, ("c", 3), ("d", 2), ("e", None)), EQUAL.format("cpu", "cpus")),
        (1, pod("a", 5, ("c", 3), ("d", 2), ("e", None)), EQUAL.format("memory", "memory")),
        (
            0,
            pod("a", 2, ("c", 2), init=[container("i", 3)]),
            "pod rejected, largest exclusive init container requests 3 cpus, but only 2 available",
        ),
        (
            1,
            pod("a", 2, ("c", 2), init=[container("i", 3)]),
            (
                f"pod rejected, largest exclusive init container requests {3 * GIB} of memory, "
                f"but only {2 * GIB} available"
            ),
        ),
        (
            0,
            pod("a", 2, init=[container("s", 2, **SIDECAR), container("i", None)]),
            "pod rejected, pod has shared init containers but no cpus available for them",
        ),
        (
            1,
            pod("a", 2, init=[container("s", 2, **SIDECAR), container("i", None)]),
            "pod rejected, pod has shared init containers but no memory available for them",
        ),
    ],
)
def test_a_pod_whose_containers_leave_nothing_to_share_is_refused(manager, asking, text):
    """A container that shares would run on what all pods of the node share; the words are upstream's."""
    with pytest.raises(EmptyPodSharedPoolError) as refused:
        managers(FilesInMemory({}))[manager].allocate(asking)
    assert str(refused.value) == text


def test_a_pod_whose_whole_is_not_there_is_refused():
    """The reserved CPUs and memory are not counted among those that are free."""
    cpu_manager, memory_manager = managers(FilesInMemory({}))
    with pytest.raises(DeviceError, match="to satisfy request: requested=8, available=7"):
        cpu_manager.allocate(pod("a", 8, ("c", 2)))
    with pytest.raises(DeviceError, match="no NUMA nodes with enough memory is available"):
        memory_manager.allocate(pod("a", 8, ("c", 2)))


BUGS = ("k8s-141041", "k8s-141077")


def test_a_pod_that_is_admitted_again_keeps_what_it_has():
    """Without the bugs the next kubelet gives a pod nothing again, and completes what a file lacks."""
    files = FilesInMemory({})
    asking = pod("a", 4, ("c", 2), ("d", None))
    admit(managers(files, bugs=dict.fromkeys(BUGS, False)), asking)
    before = cpus(files), memory(files)
    found = managers(files, bugs=dict.fromkeys(BUGS, False))
    admit(found, asking)
    assert (cpus(files), memory(files)) == before
    found[0].collect({"a": {"c"}})
    admit(found, asking)
    assert cpus(files) == before[0]


def test_with_the_known_bugs_a_pod_that_is_admitted_again_is_given_its_whole_twice():
    """The first CPUs are nobody's any more, and a pod that needs more than are left is refused (140989)."""
    files = FilesInMemory({})
    bugs = dict.fromkeys(BUGS, True)
    small, large = pod("a", 3, ("c", 2), ("d", None)), pod("b", 1, ("c", None))
    admit(managers(files, bugs=bugs), small)
    admit(managers(files, bugs=bugs), small)
    assert cpus(files) == ("0,7", {"a": "4-6"}, {"a": {"c": "4-5", "d": "6"}})
    assert memory(files) == (1, {"a": [3]}, {"a": {"c": [2], "d": [1]}})
    with pytest.raises(CheckpointError, match="doesn't match with CPUs in state"):
        managers(files, bugs=bugs)
    files = FilesInMemory({})
    admit(managers(files, bugs=bugs), pod("a", 4, ("c", None)))
    with pytest.raises(DeviceError, match="requested=4, available=3"):
        managers(files, bugs=bugs)[0].allocate(pod("a", 4, ("c", None)))
    admit(managers(FilesInMemory({}), bugs=bugs), large)
