"""VolumeZone: volumes that are labelled with a zone or region are used from nodes there.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/volumezone, 1.36.
"""

from collections.abc import Sequence

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
            claims = [*self._volumes.claims_of(pod)]
        except ClaimUnusable as error:
            return PreFilterResult(unresolvable(str(error)))
        for claim in claims:
            volume = self._volumes.volume(claim["spec"].get("volumeName") or "")
            labels = (volume["metadata"].get("labels") or {}) if volume is not None else {}
            wanted += [(key, frozenset(labels[key].split(_SEPARATOR))) for key in _KEYS if key in labels]
        if not wanted:
            return PreFilterResult(SKIP)
        state.write(NAME, wanted)
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        if not any(key in node.labels for key in _KEYS):
            return SUCCESS
        for key, values in state.read(NAME):
            here = node.labels.get(key, node.labels.get(_STABLE.get(key, key)))
            if here not in values:
                return _ELSEWHERE
        return SUCCESS
