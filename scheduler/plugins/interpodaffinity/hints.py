"""The queueing hints of InterPodAffinity: the events that may help a pod that it rejected.

Source: k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity/plugin.go, 1.31 … 1.37.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.features.affinity_hints import AffinityHintFeatures
from kubeskew.scheduler.framework.affinity_terms import AffinityTerm, match_all
from kubeskew.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventHint,
    EventResource,
    Hint,
    has_node,
    is_same_pod,
)
from kubeskew.scheduler.framework.pod_info import PodInfo

Resolve = Callable[[Iterable[AffinityTerm]], Sequence[AffinityTerm]]
NamespaceLabels = Callable[[str], Mapping[str, str]]


def hints(
    resolve: Resolve, labels_of: NamespaceLabels, features: AffinityHintFeatures
) -> Sequence[EventHint]:
    """Returns the hints; `resolve` turns namespace selectors into namespaces, `labels_of` returns a
    namespace's labels."""
    pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
    nodes = Action.ADD | Action.UPDATE_NODE_LABEL
    own = _never if features.overlooks_own_labels else is_same_pod
    return (
        EventHint(ClusterEvent(EventResource.ASSIGNED_POD, pods), _after_pod(resolve, labels_of, features)),
        EventHint(ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), own),
        EventHint(ClusterEvent(EventResource.NODE, nodes), _after_node),
    )


def _never(_pod: Object, _old: Object | None, _new: Object | None) -> bool:
    return False


def _after_pod(resolve: Resolve, labels_of: NamespaceLabels, features: AffinityHintFeatures) -> Hint:
    some = all if features.all_anti_terms else any

    def hint(pod: Object, old: Object | None, new: Object | None) -> bool:
        if features.overlooks_nominated and not has_node(old, new):
            return False
        waiting = PodInfo(pod)
        near, far = waiting.affinity.required, waiting.affinity.required_anti
        if not features.overlooks_selected_namespaces:
            near, far = resolve(near), resolve(far)
        before = PodInfo(old) if old is not None else None
        after = PodInfo(new) if new is not None and not _is_over(new) else None

        def is_wanted(other: PodInfo | None) -> bool:
            return other is not None and match_all(near, other.namespace, other.labels)

        def is_avoided(other: PodInfo | None) -> bool:
            return other is not None and _about(some, far, other.namespace, other.labels, {})

        def avoids(other: PodInfo | None) -> bool:
            if other is None or features.overlooks_repelling:
                return False
            labels = labels_of(waiting.namespace)
            return _about(some, other.affinity.required_anti, waiting.namespace, waiting.labels, labels)

        if is_wanted(after) and not is_wanted(before):
            return True
        if before is None:
            return False
        return (is_avoided(before) and not is_avoided(after)) or (avoids(before) and after is None)

    return hint


def _about(
    some: Callable[[Iterable[bool]], bool],
    terms: Sequence[AffinityTerm],
    namespace: str,
    labels: Mapping[str, str],
    of_namespace: Mapping[str, str],
) -> bool:
    """Returns whether `some` of the terms, of which there must be one, match a pod."""
    return bool(terms) and some(term.matches(namespace, labels, of_namespace) for term in terms)


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
