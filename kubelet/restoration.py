"""The outcome of a kubelet's start for each of the files that the one before it left.

Each file is read by what reads it at a kubelet's start, over a copy in memory: nothing is called, nobody
waits, and the files themselves stay as they are. So the outcome here is that of the kubelet.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.kubelet.allocation import StateFile, state_files
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUManagerState, format_set
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryManagerState
from kubeskew.kubelet.deviceplugins import pod_devices
from kubeskew.kubelet.dra import checkpoint as claim_checkpoint
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.files import FilesInMemory, StateFiles
from kubeskew.kubelet.node.config import NodeConfig
from kubeskew.kubelet.resourcemanagers import cpu, memory
from kubeskew.kubelet.resourcemanagers.cpu import CPUManager
from kubeskew.kubelet.resourcemanagers.memory import MemoryManager
from kubeskew.kubelet.resourcemanagers.pod_level import POD_SCOPE, NodeAmounts

Kept = Mapping[str, bytes]  # files by their path below the kubelet's directory
Contents = dict[str, Any]  # plain values; `entries` are those of pods or claims
_HERE = Path()
_DEVICES = f"{pod_devices.DIRECTORY}/{pod_devices.FILE_NAME}"


@dataclass(frozen=True, slots=True)
class Restored:
    """The outcome of a kubelet's start for one file.

    With a text in `refused` the kubelet does not start; with one in `given_up` it goes on without the file.
    Both are the kubelet's words.
    """

    file: str
    contents: Contents
    refused: str = ""
    given_up: str = ""
    exit_code: int | None = None  # of the process, which ends; None if it goes on


def resource_managers(
    config: NodeConfig, directory: Path, features: KubeletFeatures, files: StateFiles
) -> list[CPUManager | MemoryManager]:
    """Managers of CPUs and memory stand in the order in which they start."""
    amounts = NodeAmounts(config.capacity, config.kube_reserved)
    by_pod, whole = config.topology_manager_scope == POD_SCOPE, features.pod_level
    policy, form = config.cpu_manager_policy, features.cpu_state
    found: list[CPUManager | MemoryManager] = [
        CPUManager(directory, amounts, policy, form, files, whole, by_pod=by_pod)
    ]
    if features.memory_state is not None:
        policy, blocks = config.memory_manager_policy, features.memory_state
        found.append(MemoryManager(directory, amounts, policy, blocks, files, whole, by_pod=by_pod))
    return found


def restored(config: NodeConfig, gates: FeatureGates, kept: Kept) -> tuple[list[Restored], dict[str, bytes]]:
    """Returns what a kubelet makes of a node's files, in the order in which it reads them, and the files as
    it writes them.

    Upstream's ends at the first that it refuses; here the others are read, too. A file that is not there is
    none that could be refused; one that no kubelet of the release reads has no outcome.
    """
    files = FilesInMemory(kept)
    found = [_tried(*each) for each in _readers(config, gates, files)]
    return [each for each in found if each.file in kept], files.contents


_Reader = tuple[str, Callable[[], Contents]]  # a file, and what reads it and writes it again


def _readers(config: NodeConfig, gates: FeatureGates, files: StateFiles) -> Iterator[_Reader]:
    features = KubeletFeatures.of(gates)
    if features.dynamic_resources:
        yield claim_checkpoint.FILE_NAME, partial(_claims, gates, files)
    for file in state_files(_HERE, features, files):
        yield file.name, partial(_given, file)
    for manager in resource_managers(config, _HERE, features, files):
        yield (cpu if isinstance(manager, CPUManager) else memory).FILE_NAME, partial(_managed, manager)
    yield _DEVICES, partial(_devices, files)


def _tried(file: str, read: Callable[[], Contents]) -> Restored:
    try:
        return Restored(file, read())
    except CheckpointError as error:
        return Restored(file, {}, refused=str(error), exit_code=error.exit_code)
    except pod_devices.UnreadableCheckpointError as error:
        return Restored(file, {}, given_up=pod_devices.UNREADABLE.format(error=error))


def _claims(gates: FeatureGates, files: StateFiles) -> Contents:
    file = generation_of(gates).checkpoint(_HERE, files)
    infos = file.load()
    file.store(infos)
    return {"entries": {f"{info.namespace}/{info.name}": _claim(info) for info in infos}}


def _claim(info: ClaimInfo) -> Contents:
    devices = {
        driver: [{name: value for name, value in device.as_json().items() if value} for device in found]
        for driver, found in info.devices.items()
    }
    skips = {driver: sorted(calls) for driver, calls in info.skips.items()}
    entry = {
        "uid": info.uid,
        "pods": sorted(info.pod_uids),
        "driver": info.driver,
        "class": info.class_name,
        "handles": [*info.handles],
        "devices": devices,
        "skippedCalls": skips,
    }
    return {name: value for name, value in entry.items() if value}


def _given(file: StateFile) -> Contents:
    file.load()
    file.save()
    entries = {uid: dict(of_pod) for uid, of_pod in file.state.allocated.items()}
    more = {"resizeStatuses": dict(file.state.resize_statuses), "pods": dict(file.state.pod_level)}
    return {"entries": entries, **{name: found for name, found in more.items() if found}}


def _managed(manager: CPUManager | MemoryManager) -> Contents:
    manager.start()
    manager.save()
    match manager.state:
        case CPUManagerState(policy, shared, cpus, pods):
            entries = {
                pod: {name: format_set(each) for name, each in of_pod.items()} for pod, of_pod in cpus.items()
            }
            of_pods = {"pods": {pod: format_set(each) for pod, each in pods.items()}} if pods else {}
            return {"policy": policy, "shared": format_set(shared), "entries": entries, **of_pods}
        case MemoryManagerState(policy, machine, blocks, memory_of_pods):
            contents = {"policy": policy, "machine": machine, "entries": blocks}
            return contents | ({"pods": memory_of_pods} if memory_of_pods else {})


def _devices(files: StateFiles) -> Contents:
    found = pod_devices.read_checkpoint(files, _HERE / pod_devices.DIRECTORY)
    allocations, resources = found or ((), [])
    entries = {f"{pod}/{container}/{name}": sorted(each.ids) for pod, container, name, each in allocations}
    return {"resources": resources, "entries": entries}
