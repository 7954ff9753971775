"""The CPU manager and the memory manager with static policies: who gets what, and what keeps a kubelet from
starting."""

import orjson
import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.device_managers import DeviceError
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import UNJOURNALLED
from kubeskew.kubelet.resourcemanagers.cpu import CPUManager
from kubeskew.kubelet.resourcemanagers.managers import ResourceManagers
from kubeskew.kubelet.resourcemanagers.memory import MemoryManager
from kubeskew.kubelet.resourcemanagers.pod_level import NodeAmounts

AMOUNTS = NodeAmounts({"cpu": "8", "memory": "8Gi"}, {"cpu": "1", "memory": "1Gi"})
GIB = 1 << 30


def features(minor=35):
    return KubeletFeatures.of(FeatureGates(Version(minor), {}))


def cpu_manager(directory, policy="static", amounts=AMOUNTS):
    manager = CPUManager(directory, amounts, policy, features().cpu_state, UNJOURNALLED)
    manager.start()
    return manager


def memory_manager(directory, policy="Static", amounts=AMOUNTS):
    manager = MemoryManager(directory, amounts, policy, features().memory_state, UNJOURNALLED)
    manager.start()
    return manager


def pod(uid, *containers, init=()):
    """Returns a Guaranteed pod, of containers (name, CPU, memory)."""

    def made(name, cpu, memory="1Gi", **fields):
        amounts = {"cpu": cpu, "memory": memory}
        return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **fields}

    spec = {"containers": [made(*each) for each in containers]}
    return {"metadata": {"uid": uid}, "spec": spec | ({"initContainers": [*init]} if init else {})}


def init_container(name, cpu, memory, **fields):
    amounts = {"cpu": cpu, "memory": memory}
    return {"name": name, "resources": {"requests": amounts, "limits": amounts}, **fields}


def cpus(directory):
    """Returns (shared, exclusive by pod) of the file."""
    content = orjson.loads((directory / "cpu_manager_state").read_bytes())
    return content["defaultCpuSet"], content.get("entries", {})


def memory(directory):
    """Returns (free, blocks by pod) of the file."""
    content = orjson.loads((directory / "memory_manager_state").read_bytes())
    sizes = {
        uid: {name: [block["size"] // GIB for block in blocks] for name, blocks in of_pod.items()}
        for uid, of_pod in content.get("entries", {}).items()
    }
    return content["machineState"]["0"]["memoryMap"]["memory"]["free"] // GIB, sizes


def test_whole_cpus_of_guaranteed_pods_are_exclusive(tmp_path):
    """The lowest CPUs that are free and not reserved are taken from those that all others share."""
    manager = cpu_manager(tmp_path)
    assert cpus(tmp_path) == ("0-7", {})
    manager.allocate(pod("a", ("c", "2"), ("d", "1")))
    manager.allocate(pod("b", ("c", "1500m")))
    burstable = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    manager.allocate({"metadata": {"uid": "e"}, "spec": {"containers": [burstable]}})
    assert cpus(tmp_path) == ("0,4-7", {"a": {"c": "1-2", "d": "3"}})
    manager.allocate(pod("a", ("c", "2"), ("d", "1")))
    assert cpus(tmp_path)[1] == {"a": {"c": "1-2", "d": "3"}}


def test_a_pod_without_enough_cpus_is_refused(tmp_path):
    """The reserved CPUs are nobody's own."""
    manager = cpu_manager(tmp_path)
    with pytest.raises(DeviceError, match="to satisfy request: requested=8, available=7"):
        manager.allocate(pod("a", ("c", "8")))
    assert cpus(tmp_path) == ("0-7", {})


def test_cpus_of_init_containers_are_used_again(tmp_path):
    """A later container of a pod gets what an init container had, but not what a sidecar has."""
    manager = cpu_manager(tmp_path)
    first = init_container("first", "3", "1Gi")
    sidecar = init_container("sidecar", "1", "1Gi", restartPolicy="Always")
    manager.allocate(pod("a", ("c", "2"), init=[first, sidecar]))
    assert cpus(tmp_path) == ("0,4-7", {"a": {"first": "1-3", "sidecar": "1", "c": "2-3"}})


def test_cpus_of_containers_that_are_gone_are_shared(tmp_path):
    """CPUs that no other container of the pod has go back to all."""
    manager = cpu_manager(tmp_path)
    manager.allocate(pod("a", ("c", "2"), init=[init_container("first", "3", "1Gi")]))
    manager.collect({"a": {"c"}})
    assert cpus(tmp_path) == ("0,3-7", {"a": {"c": "1-2"}})
    manager.collect({})
    assert cpus(tmp_path) == ("0-7", {})


def test_the_next_kubelet_goes_on(tmp_path):
    """A kubelet that starts knows whose CPUs and memory are whose."""
    cpu_manager(tmp_path).allocate(pod("a", ("c", "2")))
    cpu_manager(tmp_path).allocate(pod("b", ("c", "2")))
    assert cpus(tmp_path)[1] == {"a": {"c": "1-2"}, "b": {"c": "3-4"}}
    memory_manager(tmp_path).allocate(pod("a", ("c", "2")))
    memory_manager(tmp_path).allocate(pod("b", ("c", "2", "2Gi")))
    assert memory(tmp_path) == (4, {"a": {"c": [1]}, "b": {"c": [2]}})


WAY_OUT = (
    ", please drain this node and delete the CPU manager checkpoint file "
    '"/var/lib/kubelet/cpu_manager_state" before restarting Kubelet'
)


@pytest.mark.parametrize(
    ("policy", "amounts", "error"),
    [
        (
            "none",
            AMOUNTS,
            ("start cpu manager error: could not restore state from checkpoint: "
            f'configured policy "none" differs from state checkpoint policy "static"{WAY_OUT}'),
        ),
        (
            "static",
            NodeAmounts({"cpu": "8"}, {}),
            (
                "[cpumanager] the static policy requires systemreserved.cpu + kubereserved.cpu to be "
                "greater than zero"
            ),
        ),
        (
            "static",
            NodeAmounts({"cpu": "9"}, {"cpu": "500m"}),
            (
                'start cpu manager error: current set of available CPUs "0-8" doesn\'t match with CPUs in '
                'state "0-7"'
            ),
        ),
        (
            "static",
            NodeAmounts({"cpu": "8"}, {"cpu": "2"}),
            'start cpu manager error: not all reserved cpus: "0-1" are present in defaultCpuSet: "0,3-7"',
        ),
    ],
)  # fmt: skip
def test_a_kubelet_does_not_start_over_other_cpus(tmp_path, policy, amounts, error):
    """A changed policy, reserve or machine keeps a kubelet from starting over the old checkpoint."""
    cpu_manager(tmp_path).allocate(pod("a", ("c", "2")))
    with pytest.raises(CheckpointError) as refused:
        cpu_manager(tmp_path, policy, amounts)
    assert str(refused.value) == error


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b'{"policyName":"static","defaultCpuSet":"","entries":{"p":{"c":"1"}},"checksum":0}', "be empty"),
        (
            b'{"policyName":"static","defaultCpuSet":"0-7","entries":{"p":{"c":"1"}},"checksum":0}',
            'pod: p, container: c cpuset: "1" overlaps with default cpuset "0-7"',
        ),
        (b'{"policyName":"static","defaultCpuSet":["0"],"checksum":0}', "cannot unmarshal array"),
    ],
)
def test_a_kubelet_does_not_start_over_a_state_that_contradicts_itself(tmp_path, content, error):
    """A file that somebody has edited keeps a kubelet from starting."""
    (tmp_path / "cpu_manager_state").write_bytes(content)
    with pytest.raises(CheckpointError, match=error):
        cpu_manager(tmp_path)


def test_memory_of_guaranteed_pods_is_counted(tmp_path):
    """Guaranteed pods have memory of the NUMA node until they are gone."""
    manager = memory_manager(tmp_path)
    assert memory(tmp_path) == (7, {})
    manager.allocate(pod("a", ("c", "1", "2Gi"), ("d", "1", "1Gi")))
    manager.allocate({"metadata": {"uid": "b"}, "spec": {"containers": [{"name": "c"}]}})
    assert memory(tmp_path) == (4, {"a": {"c": [2], "d": [1]}})
    with pytest.raises(DeviceError, match="no NUMA nodes with enough memory is available"):
        manager.allocate(pod("e", ("c", "1", "5Gi")))
    manager.collect({"a": {"c"}})
    assert memory(tmp_path) == (5, {"a": {"c": [2]}})


def test_memory_of_init_containers_is_used_again(tmp_path):
    """All blocks of a pod together are what it was given: an init container's shrinks by what is reused."""
    memory_manager(tmp_path).allocate(pod("a", ("c", "1", "2Gi"), init=[init_container("first", "1", "3Gi")]))
    assert memory(tmp_path) == (4, {"a": {"first": [1], "c": [2]}})
    memory_manager(tmp_path)


WAY_OUT_OF_MEMORY = (
    ", please drain this node and delete the memory manager checkpoint file "
    '"/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
)


@pytest.mark.parametrize(
    ("policy", "amounts", "error"),
    [
        (
            "None",
            AMOUNTS,
            (
                "start memory manager error: could not restore state from checkpoint: [memorymanager] "
                f'configured policy "None" differs from state checkpoint policy "Static"{WAY_OUT_OF_MEMORY}'
            ),
        ),
        (
            "Static",
            NodeAmounts({"memory": "8Gi"}, {}),
            "[memorymanager] you should specify the system reserved memory",
        ),
        (
            "Static",
            NodeAmounts({"memory": "9Gi"}, {"memory": "1Gi"}),
            (
                "start memory manager error: [memorymanager] the expected machine state is different from "
                "the real one"
            ),
        ),
    ],
)
def test_a_kubelet_does_not_start_over_other_memory(tmp_path, policy, amounts, error):
    """A changed policy, reserve or machine keeps a kubelet from starting over the old checkpoint."""
    memory_manager(tmp_path).allocate(pod("a", ("c", "2")))
    with pytest.raises(CheckpointError) as refused:
        memory_manager(tmp_path, policy, amounts)
    assert str(refused.value) == error


def test_assignments_without_a_machine_are_an_error(tmp_path):
    """A file with assignments of no memory keeps a kubelet from starting."""
    (tmp_path / "memory_manager_state").write_bytes(
        b'{"policyName":"Static","machineState":{},"entries":{"p":{"c":[]}},"checksum":0}'
    )
    with pytest.raises(CheckpointError, match="machine state can not be empty when it has memory"):
        memory_manager(tmp_path)


def test_nothing_is_taken_back_before_all_pods_are_known(tmp_path):
    """A kubelet that starts admits the pods that it finds one by one, and keeps the CPUs of the others."""
    cpu_manager(tmp_path).allocate(pod("b", ("c", "2")))
    active = {"a": {"c"}}
    managers = ResourceManagers([cpu_manager(tmp_path)], None, lambda: active)
    managers.start()
    managers.admit(pod("a", ("c", "2")))
    assert cpus(tmp_path)[1] == {"a": {"c": "3-4"}, "b": {"c": "1-2"}}
    managers.sources_ready()
    managers.admit(pod("a", ("c", "2")))
    assert cpus(tmp_path)[1] == {"a": {"c": "3-4"}}
