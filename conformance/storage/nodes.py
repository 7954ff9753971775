"""Finds the nodes whose kubelet would not start at the next version, for it cannot read what this one kept.

Kubelets of neighbouring releases, or of other gates, write some of their checkpoints differently
(`conformance/storage/checkpoints.py`).
"""

from collections.abc import Iterable, Iterator, Mapping

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.conformance.storage.audit import AuditFinding
from kubeskew.conformance.storage.checkpoints import refused
from kubeskew.conformance.storage.servers import StorageServer
from kubeskew.kubelet import pod_spec

UNDRAINED = "undrained"


def undrained(
    entries: Iterable[Entry],
    server: StorageServer,
    before: Mapping[str, FeatureGates],
    after: Mapping[str, FeatureGates],
) -> Iterator[tuple[AuditFinding, list[Key]]]:
    """Yields the nodes that do not start again as they are, by name and file, and their pods, which `server`
    reads. `before` and `after` have the gates of each node's kubelet.
    """
    kept = [*entries]
    pods = _pods(kept, server)
    for entry in sorted(kept, key=lambda entry: entry.key):
        name = entry.key.name
        if entry.key.resource == "nodes" and name in before:
            of_node = pods.get(name, [])
            for file, why in refused(of_node, before[name], after[name]):
                yield AuditFinding(entry.key, entry.revision, file, UNDRAINED, (why,)), places(of_node)


def pods_on(entries: Iterable[Entry], server: StorageServer, node: str) -> list[Key]:
    """Returns the places of a node's pods that have not ended, which `server` reads."""
    return places(_pods(entries, server).get(node, []))


def places(pods: Iterable[Object]) -> list[Key]:
    """Returns where pods lie."""
    return [Key("pods", pod_spec.namespace_of(pod), pod_spec.name_of(pod)) for pod in pods]


def _pods(entries: Iterable[Entry], server: StorageServer) -> dict[str, list[Object]]:
    """Returns the pods that have not ended, by node."""
    found: dict[str, list[Object]] = {}
    for entry in entries:
        if entry.key.resource == "pods":
            try:
                pod = server.read(entry)
            except UnreadableError:
                continue
            node = pod["spec"].get("nodeName")
            if node and pod_spec.phase_of(pod) not in pod_spec.TERMINAL_PHASES:
                found.setdefault(node, []).append(pod)
    return found
