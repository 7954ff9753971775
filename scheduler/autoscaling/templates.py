"""Makes fictional nodes from templates.

Source: cluster-autoscaler 1.35, simulator/node_info_utils.go, utils/taints (SanitizeTaints).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.node_slices import NODE_RESOURCE_SLICES, slices_node
from kubeskew.scheduler.framework.pod_info import PodInfo

HOSTNAME = "kubernetes.io/hostname"
TO_BE_DELETED = "ToBeDeletedByClusterAutoscaler"

_PASSING_TAINTS = frozenset(
    {
        TO_BE_DELETED,
        "DeletionCandidateOfClusterAutoscaler",
        "aws.amazon.com/NodeWithImpairedVolumes",
        "cloud.google.com/impending-node-termination",
        "node.cloudprovider.kubernetes.io/shutdown",
        "node.cloudprovider.kubernetes.io/uninitialized",
        *(
            f"node.kubernetes.io/{condition}"
            for condition in (
                "disk-pressure",
                "memory-pressure",
                "network-unavailable",
                "not-ready",
                "pid-pressure",
                "unreachable",
                "unschedulable",
            )
        ),
    }
)
_PASSING_PREFIXES = (
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "status-taint.cluster-autoscaler.kubernetes.io/",
)


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """A kind of node that can be added; `pods` run on each from the start, as those of DaemonSets do.

    `slices_of` names the node for which the slices were published that each such node has.
    """

    name: str
    node: Object
    slices_of: str = ""
    pods: Sequence[Object] = ()

    def fresh_node(self, name: str) -> Object:
        """Returns a node of this kind with a name of its own."""
        metadata = self.node["metadata"]
        kept = {key: metadata[key] for key in ("labels", "annotations") if metadata.get(key)}
        annotations = dict(kept.get("annotations") or {})
        origin = slices_node(self.node) or self.slices_of
        if origin:
            annotations[NODE_RESOURCE_SLICES] = origin
        spec = dict(self.node.get("spec") or {})
        if spec.get("taints"):
            spec["taints"] = [taint for taint in spec["taints"] if not _passes(taint)]
        return {
            **self.node,
            "metadata": {
                "name": name,
                "uid": name,
                "labels": {**(kept.get("labels") or {}), HOSTNAME: name},
                **({"annotations": annotations} if annotations else {}),
            },
            "spec": spec,
        }

    def fresh_pods(self, node: str) -> list[PodInfo]:
        """Returns the pods of a new node."""
        return [PodInfo(_on_node(pod, node)) for pod in self.pods]


def _passes(taint: Any) -> bool:
    """Returns whether the taint tells of a node's passing state."""
    key = str(taint.get("key") or "")
    return key in _PASSING_TAINTS or key.startswith(_PASSING_PREFIXES)


def _on_node(pod: Object, node: str) -> Object:
    metadata = pod["metadata"]
    name = f"{metadata['name']}-{node}"
    fresh = {**metadata, "name": name, "uid": f"{metadata.get('namespace', '')}/{name}"}
    return {**pod, "metadata": fresh, "spec": {**pod["spec"], "nodeName": node}}
