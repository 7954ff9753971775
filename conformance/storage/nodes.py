"""Finds the nodes whose kubelet would not start at the next version, for it cannot read what this one kept.

The checkpoint of prepared claims is what kubelets of neighbouring releases write differently (issues 123552
and 127653); the same formats that fake kubelets use are asked.
"""

from collections.abc import Iterable, Iterator

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.conformance.storage.audit import AuditFinding
from kubeskew.conformance.storage.servers import StorageServer
from kubeskew.kubelet.checkpoints.reading import CheckpointError
from kubeskew.kubelet.dra.checkpoint import FILE_NAME, NoCodec
from kubeskew.kubelet.dra.claims import ClaimInfo
from kubeskew.kubelet.dra.features import codec_for
from kubeskew.kubelet.dra.plugin import PreparedDevice

UNDRAINED = "undrained"
_GATE = "DynamicResourceAllocation"
_ENDED = ("Succeeded", "Failed")


def undrained(
    entries: Iterable[Entry], before: StorageServer, server: StorageServer
) -> Iterator[tuple[AuditFinding, list[Key]]]:
    """Yields the nodes that do not start again as they are, by name, and their pods with claims."""
    if not all(each.gates.knows(_GATE) and each.gates.enabled(_GATE) for each in (before, server)):
        return
    kept = [*entries]
    users = _users(kept, before)
    for entry in sorted(kept, key=lambda entry: entry.key):
        if entry.key.resource == "nodes":
            pods = users.get(entry.key.name, [])
            why = _refusal(pods, before, server)
            if why:
                finding = AuditFinding(entry.key, entry.revision, FILE_NAME, UNDRAINED, (why,))
                places = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
                yield finding, [Key("pods", *place) for place in places]


def _users(entries: Iterable[Entry], server: StorageServer) -> dict[str, list[Object]]:
    """Returns the pods with claims that run, by node."""
    found: dict[str, list[Object]] = {}
    for entry in entries:
        if entry.key.resource == "pods":
            try:
                pod = server.read(entry)
            except UnreadableError:
                continue
            spec, status = pod.get("spec") or {}, pod.get("status") or {}
            node = spec.get("nodeName")
            claims = spec.get("resourceClaims") or status.get("extendedResourceClaimStatus")
            if node and claims and status.get("phase") not in _ENDED:
                found.setdefault(node, []).append(pod)
    return found


def _refusal(pods: Iterable[Object], before: StorageServer, server: StorageServer) -> str:
    """Returns why the later kubelet does not read the checkpoint of the earlier one; empty if it does."""
    written, reads = codec_for(before.version), codec_for(server.version)
    if isinstance(written, NoCodec) or isinstance(reads, NoCodec):
        return ""
    infos = [
        ClaimInfo(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            {metadata["uid"]},
            {"driver": [PreparedDevice("pool", "device", ("request",), ("vendor/class=device",))]},
            driver="driver",
            class_name="class",
            handles=({"driverName": "driver", "data": "{}"},),
        )
        for metadata in (pod["metadata"] for pod in pods)
    ]
    try:
        reads.decode(written.encode(infos))
    except CheckpointError as error:
        return str(error)
    return ""
