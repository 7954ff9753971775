"""Predicts how a next kubelet reads the files of a node, and finds nodes whose kubelet would not start.

Kubelets of neighbouring releases, or of other gates, write some of their checkpoints differently. The formats
are those that fake kubelets use. A checkpoint is written as the earlier kubelet would, with the contents that
the node's pods give it, and read as the later one would. Left out is the device manager's, whose format is
the same in all releases, and which no kubelet insists on.

The files are read by the kubelet's own code (`kubelet/restoration.py`): errors that keep it from starting are
given in its words, and fields that it would no longer know, or take for something else, one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.cluster.kubelet_files import kubelet_files_now
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.changes import FieldChange
from kubeskew.conformance.storage.audit import LOST, AuditFinding, differences, field_findings
from kubeskew.conformance.storage.servers import StorageServer
from kubeskew.kubelet import pod_spec
from kubeskew.kubelet.allocation import file_names, resources_of
from kubeskew.kubelet.checkpoints import cpu_manager_state, memory_manager_state, pod_allocations
from kubeskew.kubelet.checkpoints.checkpoint_manager import CheckpointError
from kubeskew.kubelet.checkpoints.cpu_manager_state import CPUManagerState
from kubeskew.kubelet.checkpoints.memory_manager_state import MemoryManagerState
from kubeskew.kubelet.checkpoints.pod_allocations import PodsState
from kubeskew.kubelet.dra import checkpoint
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.generations import generation_of
from kubeskew.kubelet.dra.plugin import PreparedDevice
from kubeskew.kubelet.features import KubeletFeatures
from kubeskew.kubelet.node.config import NodeConfig, node_config
from kubeskew.kubelet.resourcemanagers import cpu, memory
from kubeskew.kubelet.restoration import Contents, Kept, Restored, restored

Refusal = tuple[str, str]  # the name of a file, and why it cannot be read


def refused(pods: Sequence[Object], before: FeatureGates, after: FeatureGates) -> Iterator[Refusal]:
    """Yields the files of a node with these pods that its next kubelet cannot read, in a defined order."""
    written, reads = (KubeletFeatures.of(gates) for gates in (before, after))
    for file, why in chain(
        _claims(pods, before, after),
        _cpus(written, reads),
        _memory(written, reads),
        _given(pods, written, reads),
    ):
        if why:
            yield file, why


def _claims(pods: Sequence[Object], before: FeatureGates, after: FeatureGates) -> Iterator[Refusal]:
    if not all(KubeletFeatures.of(gates).dynamic_resources for gates in (before, after)):
        return
    infos = [
        ClaimInfo(
            pod_spec.namespace_of(pod),
            pod_spec.name_of(pod),
            pod_spec.uid_of(pod),
            {pod_spec.uid_of(pod)},
            {"driver": [PreparedDevice("pool", "device", ("request",), ("vendor/class=device",))]},
            driver="driver",
            class_name="class",
            handles=({"driverName": "driver", "data": "{}"},),
        )
        for pod in pods
        if _has_claims(pod)
    ]
    written, reads = generation_of(before).codec, generation_of(after).codec
    if written is not None and reads is not None:
        yield checkpoint.FILE_NAME, _why(partial(reads.decode, written.encode(infos)))


def _has_claims(pod: Object) -> bool:
    status = pod.get("status") or {}
    return bool(pod["spec"].get("resourceClaims") or status.get("extendedResourceClaimStatus"))


def _cpus(before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    """The format does not depend on the contents of the file."""
    content = cpu_manager_state.encode(CPUManagerState("none"), before.cpu_state)
    yield cpu.FILE_NAME, _why(partial(cpu_manager_state.decode, content, after.cpu_state))


def _memory(before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    written, reads = before.memory_state, after.memory_state
    if written is not None and reads is not None:
        content = memory_manager_state.encode(MemoryManagerState("None"), written)
        yield memory.FILE_NAME, _why(partial(memory_manager_state.decode, content, reads))


def _given(pods: Sequence[Object], before: KubeletFeatures, after: KubeletFeatures) -> Iterator[Refusal]:
    """Files in another place are unknown to the next kubelet."""
    written, reads = before.allocation_form, after.allocation_form
    if written is None or reads is None:
        return
    given = PodsState({pod_spec.uid_of(pod): resources_of(pod, written) for pod in pods})
    for file in file_names(written):
        if file in file_names(reads):
            content = pod_allocations.encode(given, written)
            yield file, _why(partial(pod_allocations.decode, content, reads))


def _why(decode: Callable[[], object]) -> str:
    """The text is the error of decoding, or empty."""
    try:
        decode()
    except (
        CheckpointError,
        AttributeError,
        TypeError,
        ValueError,
    ) as error:  # as the managers' loading has it
        return str(error)
    return ""


UNDRAINED = "undrained"


def undrained(
    entries: Iterable[Entry],
    server: StorageServer,
    before: Mapping[str, FeatureGates],
    after: Mapping[str, FeatureGates],
) -> Iterator[tuple[AuditFinding, list[Key]]]:
    """Nodes that do not start again as they are come by name and file, with their pods, which `server` reads.
    `before` and `after` have the gates of each node's kubelet."""
    kept = [*entries]
    pods = _pods(kept, server)
    for entry in sorted(kept, key=lambda entry: entry.key):
        name = entry.key.name
        if entry.key.resource == "nodes" and name in before:
            of_node = pods.get(name, [])
            for file, why in refused(of_node, before[name], after[name]):
                yield AuditFinding(entry.key, entry.revision, file, UNDRAINED, (why,)), places(of_node)


def pods_on(entries: Iterable[Entry], server: StorageServer, node: str) -> list[Key]:
    """Pods that have ended are left out; `server` reads the others."""
    return places(_pods(entries, server).get(node, []))


def places(pods: Iterable[Object]) -> list[Key]:
    return [Key("pods", pod_spec.namespace_of(pod), pod_spec.name_of(pod)) for pod in pods]


def _pods(entries: Iterable[Entry], server: StorageServer) -> dict[str, list[Object]]:
    """Pods that have ended are left out."""
    found: dict[str, list[Object]] = {}
    for entry in entries:
        if entry.key.resource == "pods":
            try:
                pod = server.read(entry)
            except UnreadableError:
                continue
            node = pod["spec"].get("nodeName")
            if node and not is_terminal(pod):
                found.setdefault(node, []).append(pod)
    return found


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node as its kubelet is configured, with the files below the kubelet's directory.

    `found` are the names of those that were there to begin with. A later kubelet has others, too, whose
    contents only follow from the node's pods.
    """

    config: NodeConfig
    files: Kept
    found: frozenset[str]

    @classmethod
    def of(cls, config: NodeConfig, files: Kept) -> "KeptNode":
        return cls(config, files, frozenset(files))


def kept_nodes(directory: StateDir) -> list[KeptNode]:
    state, files = directory.load(), kubelet_files_now(directory)
    return [
        KeptNode.of(node_config(state.node_spec(node).as_json()), files[node])
        for process in state.of_kind("kubelet")
        for node in process.nodes
        if node in files
    ]


def read_by(
    node: KeptNode, revision: int, before: FeatureGates, after: FeatureGates
) -> tuple[list[AuditFinding], KeptNode]:
    """Findings of the next kubelet's reads, and the node as that kubelet leaves it.

    `revision` is the Node object's. A file that is refused is taken to have been deleted, with its pods.
    """
    known, _ = restored(node.config, before, node.files)
    found, files = restored(node.config, after, node.files)
    refused = {each.file for each in found if each.refused}
    if refused:
        left = {file: content for file, content in node.files.items() if file not in refused}
        _, files = restored(node.config, after, left)
    key = Key("nodes", "", node.config.name)
    findings = [
        AuditFinding(key, revision, *finding)
        for finding in _file_findings({file.file: file for file in known}, found, KubeletFeatures.of(after))
        if finding[0] in node.found
    ]
    return findings, replace(node, files=files)


_FileFinding = tuple[str, str, tuple[str, ...], tuple[FieldChange, ...]]  # file, what, details, fields


def _file_findings(
    known: Mapping[str, Restored], found: list[Restored], newer: KubeletFeatures
) -> Iterator[_FileFinding]:
    for each in found:
        if each.refused:
            yield each.file, UNDRAINED, (each.refused,), ()
        elif each.given_up:
            yield each.file, LOST, (each.given_up,), ()
        elif each.file in known and not (known[each.file].refused or known[each.file].given_up):
            yield from _differing(each.file, known[each.file].contents, each.contents)
    read = {each.file for each in found}
    for file, each in known.items():
        if file not in read and each.contents.get("entries"):
            yield file, LOST, (f"a kubelet {newer.version} with its gates does not read this file",), ()


def _differing(file: str, before: Contents, after: Contents) -> Iterator[_FileFinding]:
    differing = differences({"metadata": {}, **before}, {"metadata": {}, **after})
    gone = [change for change in differing if change.op == "remove"]
    changed = [change for change in differing if change.op == "replace"]
    for found in field_findings(gone, changed):
        yield file, *found
