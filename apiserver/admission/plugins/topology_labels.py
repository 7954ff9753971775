"""Labels a pod with the zone and region of its node, once it has one.

Source: k8s.io/kubernetes/plugin/pkg/admission/podtopologylabels/admission.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CREATE, Attributes, Plugin
from kubeskew.apiserver.features import AdmissionFeatures
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import object_of

_LABELS = ("topology.kubernetes.io/region", "topology.kubernetes.io/zone")


class PodTopologyLabels(Plugin):
    """Looks at bindings, whose labels the pod takes over, and at pods that are made with a node."""

    operations = frozenset({CREATE})
    resources = frozenset({"pods"})
    subresources = frozenset({"", "binding"})

    def __init__(self, store: Store, features: AdmissionFeatures) -> None:
        self._store = store
        self._on = features.topology_labels

    async def admit(self, attributes: Attributes) -> None:
        obj = attributes.object
        if obj is None or not self._on:
            return
        labels = self._of_node(_node_of(obj, attributes.subresource))
        if labels:
            metadata = obj.setdefault("metadata", {})
            metadata["labels"] = {**labels, **(metadata.get("labels") or {})}

    def _of_node(self, name: str) -> dict[str, str]:
        entry = self._store.get(Key("nodes", "", name)) if name else None
        if entry is None:
            return {}
        labels = object_of(entry)["metadata"].get("labels") or {}
        return {label: labels[label] for label in _LABELS if label in labels}


def _node_of(obj: Object, subresource: str) -> str:
    if not subresource:
        return (obj.get("spec") or {}).get("nodeName") or ""
    target = obj.get("target") or {}
    return (target.get("name") or "") if target.get("kind") == "Node" else ""
