"""The queueing hints of InterPodAffinity: the events that may help a pod that it rejected.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, 1.36.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.framework.affinity_terms import AffinityTerm, match_all
from kubeskew.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    is_same_pod,
)
from kubeskew.scheduler.framework.pod_info import PodInfo

Resolve = Callable[[Iterable[AffinityTerm]], Sequence[AffinityTerm]]
NamespaceLabels = Callable[[str], Mapping[str, str]]


def hints(resolve: Resolve, labels_of: NamespaceLabels) -> Sequence[EventHint]:
    """Returns the hints; `resolve` turns namespace selectors into namespaces, `labels_of` returns a
    namespace's labels."""
    pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
    nodes = Action.ADD | Action.UPDATE_NODE_LABEL
    return (
        EventHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), _after_pod(resolve, labels_of)),
        EventHint(ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), is_same_pod),
        EventHint(ClusterEvent(EventResource.NODE, nodes), _after_node),
    )


def _after_pod(resolve: Resolve, labels_of: NamespaceLabels) -> Hint:
    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        waiting = PodInfo(pod)
        near, far = resolve(waiting.affinity.required), resolve(waiting.affinity.required_anti)
        before = PodInfo(old) if old is not None else None
        after = PodInfo(new) if new is not None and not _is_over(new) else None

        def is_wanted(other: PodInfo | None) -> bool:
            return other is not None and match_all(near, other.namespace, other.labels)

        def is_avoided(other: PodInfo | None) -> bool:
            return other is not None and any(term.matches(other.namespace, other.labels, {}) for term in far)

        def avoids(other: PodInfo | None) -> bool:
            return other is not None and any(
                term.matches(waiting.namespace, waiting.labels, labels_of(waiting.namespace))
                for term in other.affinity.required_anti
            )

        if is_wanted(after) and not is_wanted(before):
            return True
        if before is None:
            return False
        return (is_avoided(before) and not is_avoided(after)) or (avoids(before) and after is None)

    return hint


def _is_over(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _after_node(pod: Object, old: Object | None, new: Object | None) -> bool:
    """Returns whether the node has the labels of the pod's terms, and did not have them so before."""
    if new is None:
        return False
    affinity = PodInfo(pod).affinity
    labels = new["metadata"].get("labels") or {}
    if any(term.topology_key not in labels for term in affinity.required):
        return False
    if old is None:
        return True
    before = old["metadata"].get("labels") or {}
    keys = {term.topology_key for term in (*affinity.required, *affinity.required_anti)}
    return not keys or any(labels.get(key) != before.get(key) for key in keys)
