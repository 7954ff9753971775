"""VolumeZone: volumes that are labelled with a zone or region are used from nodes there.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone, 1.36.
"""

from collections.abc import Iterator, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.volume_matching import class_of
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource
from kubeskew.scheduler.framework.interfaces import CycleState, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo, uses_claim
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable
from kubeskew.scheduler.handle import Handle
from kubeskew.scheduler.volumes import ClaimUnusable, Volumes

NAME = "VolumeZone"

_ELSEWHERE = unresolvable("node(s) had no available volume zone")
_STABLE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_KEYS = (*_STABLE, *_STABLE.values())
_SEPARATOR = "__"  # between the zones of a regional volume


class VolumeZone:
    name = NAME

    def __init__(self, handle: Handle) -> None:
        self._volumes = Volumes(handle)

    def events_to_register(self) -> Sequence[EventHint]:
        changed = Action.ADD | Action.UPDATE
        return (
            EventHint(ClusterEvent(EventResource.STORAGE_CLASS, Action.ADD)),
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventHint(ClusterEvent(EventResource.CLAIM, changed), uses_claim),
            EventHint(ClusterEvent(EventResource.VOLUME, changed)),
        )

    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        if not pod.volume_claims:
            return PreFilterResult(SKIP)
        wanted: list[tuple[str, frozenset[str]]] = []
        try:
            volumes = [*self._of_pod(pod)]
        except ClaimUnusable as error:
            return PreFilterResult(unresolvable(str(error)))
        for volume in volumes:
            labels = volume["metadata"].get("labels") or {}
            wanted += [(key, frozenset(labels[key].split(_SEPARATOR))) for key in _KEYS if key in labels]
        if not wanted:
            return PreFilterResult(SKIP)
        state.write(NAME, wanted)
        return PreFilterResult()

    def _of_pod(self, pod: PodInfo) -> Iterator[Object]:
        """Yields the volumes of a pod, but for those that are bound once it has a node; raises
        ClaimUnusable."""
        for claim in self._volumes.claims_of(pod):
            name = claim["spec"].get("volumeName")
            if name:
                volume = self._volumes.volume(name)
                if volume is None:
                    raise ClaimUnusable(f'persistentvolume "{name}" not found')
                yield volume
            elif not (class_name := class_of(claim)):
                raise ClaimUnusable("PersistentVolumeClaim had no pv name and storageClass name")
            elif self._volumes.storage_class(class_name) is None:
                raise ClaimUnusable(f'storageclass.storage.k8s.io "{class_name}" not found')
            elif not self._volumes.waits_for_consumer(claim):
                raise ClaimUnusable("PersistentVolume had no name")

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        if not any(key in node.labels for key in _KEYS):
            return SUCCESS
        for key, values in state.read(NAME):
            here = node.labels.get(key, node.labels.get(_STABLE.get(key, key)))
            if here not in values:
                return _ELSEWHERE
        return SUCCESS
