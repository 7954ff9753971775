"""Says what the next kubelet of a node makes of the files that are there.

The files are read by the kubelet's own code (`kubelet/restoring.py`): what keeps it from starting is told in
its words, and what it would no longer know, or take for something else, field by field.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apiserver.storage.records import Key
from kubeskew.cluster.kubelet_files import kubelet_files_now
from kubeskew.cluster.state import StateDir
from kubeskew.conformance.evidence.changes import FieldChange
from kubeskew.conformance.storage.audit import LOST, AuditFinding, differences, told
from kubeskew.conformance.storage.nodes import UNDRAINED
from kubeskew.kubelet.features import KubeletFeatures, features_of
from kubeskew.kubelet.node.config import NodeConfig, node_config
from kubeskew.kubelet.restoring import Contents, Kept, Restored, restored


@dataclass(frozen=True, slots=True)
class KeptNode:
    """A node as its kubelet is configured, with the files below the kubelet's directory.

    `found` are the names of those that were there to begin with. A kubelet that comes later has others, too,
    of which only the node's pods tell what is in them.
    """

    config: NodeConfig
    files: Kept
    found: frozenset[str]

    @classmethod
    def of(cls, config: NodeConfig, files: Kept) -> "KeptNode":
        return cls(config, files, frozenset(files))


def kept_nodes(directory: StateDir) -> list[KeptNode]:
    """Returns the nodes whose kubelets have left files in a state directory."""
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
    """Returns what the next kubelet makes of a node's files, and the node as that kubelet leaves it.

    `revision` is the Node object's. A file that is refused is taken to have been deleted, with its pods.
    """
    older, newer = (features_of(gates.version, gates) for gates in (before, after))
    known, _ = restored(node.config, older, node.files)
    found, files = restored(node.config, newer, node.files)
    refused = {each.file for each in found if each.refused}
    if refused:
        left = {file: content for file, content in node.files.items() if file not in refused}
        _, files = restored(node.config, newer, left)
    key = Key("nodes", "", node.config.name)
    findings = [
        AuditFinding(key, revision, *each)
        for each in _told({each.file: each for each in known}, found, newer)
        if each[0] in node.found
    ]
    return findings, replace(node, files=files)


_Told = tuple[str, str, tuple[str, ...], tuple[FieldChange, ...]]  # file, what, details, fields


def _told(known: Mapping[str, Restored], found: list[Restored], newer: KubeletFeatures) -> Iterator[_Told]:
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


def _differing(file: str, before: Contents, after: Contents) -> Iterator[_Told]:
    differing = differences({"metadata": {}, **before}, {"metadata": {}, **after})
    gone = [change for change in differing if change.op == "remove"]
    changed = [change for change in differing if change.op == "replace"]
    for found in told(gone, changed):
        yield file, *found
