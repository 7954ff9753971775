"""TaintToleration: hard taints keep pods away, soft ones make a node less attractive."""

from collections.abc import Hashable, Sequence

import orjson

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import is_tolerated, untolerated
from kubeskew.scheduler.features import SchedulerFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventHint, EventResource, is_same_pod
from kubeskew.scheduler.framework.interfaces import MAX_NODE_SCORE, CycleState
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SKIP, SUCCESS, Status, unresolvable

NAME = "TaintToleration"
REASON = "node(s) had untolerated taint(s)"


class TaintToleration:
    name = NAME

    def __init__(self, features: SchedulerFeatures) -> None:
        self._names_taint = features.taint_in_reason

    def events_to_register(self) -> Sequence[EventHint]:
        return (
            EventHint(ClusterEvent(EventResource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _tolerable),
            EventHint(ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_TOLERATION), is_same_pod),
        )

    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        return orjson.dumps(pod.spec.get("tolerations"))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        if not node.taints:
            return SUCCESS
        taint = untolerated(node.taints, pod.spec.get("tolerations") or ())
        if taint is None:
            return SUCCESS
        if not self._names_taint:
            return unresolvable(REASON)
        return unresolvable(f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}")

    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        soft = any(taint.get("effect") == "PreferNoSchedule" for node in nodes for taint in node.taints)
        return SUCCESS if soft else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        tolerations = [
            toleration
            for toleration in pod.spec.get("tolerations") or ()
            if not toleration.get("effect") or toleration["effect"] == "PreferNoSchedule"
        ]
        return sum(
            1
            for taint in node.taints
            if taint.get("effect") == "PreferNoSchedule" and not is_tolerated(taint, tolerations)
        )

    def normalize(self, scores: dict[str, int]) -> None:
        worst = max(scores.values(), default=0)
        for name, count in scores.items():
            scores[name] = MAX_NODE_SCORE - (count * MAX_NODE_SCORE // worst if worst else 0)


def _tolerable(pod: Object, old: Object | None, new: Object | None) -> bool:
    """A change helps if the pod tolerates the node's taints now, and did not before."""
    if new is None:
        return False
    tolerations = pod["spec"].get("tolerations") or ()

    def keeps_away(node: Object) -> bool:
        return untolerated((node.get("spec") or {}).get("taints") or (), tolerations) is not None

    return not keeps_away(new) and (old is None or keeps_away(old))
