"""Handles events of pods and nodes: updates the cache and the queue, requeues the pods that they may help,
and counts the requests of containers that are being resized.

Sources: k8s.io/component-helpers/resource/helpers.go (PodRequests with UseStatusResources), 1.32 and 1.33; up
to 1.31 pkg/api/v1/resource/helpers.go.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from kubeskew.apimachinery.client.informer import InformerFactory
from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.objects import Object, is_resync
from kubeskew.apimachinery.pod_resources import is_sidecar, is_terminal
from kubeskew.apimachinery.process.runtime import Panic, raised
from kubeskew.scheduler.cache import Cache
from kubeskew.scheduler.features import ResizingFeatures, SchedulerFeatures
from kubeskew.scheduler.framework.events import Action, ClusterEvent, EventResource
from kubeskew.scheduler.framework.pod_info import (
    Amounts,
    PodInfo,
    Resized,
    amounts,
    container_requests,
    pod_requests,
)
from kubeskew.scheduler.queue import SchedulingQueue

_INFEASIBLE = "Infeasible"


def resized(pod: Object, features: ResizingFeatures) -> Resized:
    """Requests, by name, of the containers of a pod on a node that count otherwise than by their spec.

    That is the largest of what a container asks for, has and was allocated; what it asks for does not count
    once the node found that impossible. Raises Panic with 132895.
    """
    if not features.counts:
        return {}
    infeasible = _is_infeasible(pod, features)
    found: dict[str, Amounts] = {}
    for container, status in _reported(pod, features):
        asked = container_requests(container)
        amounts_given = [asked, *_given(status, features)]
        counted = _largest(amounts_given[infeasible:], features)
        if counted != asked:
            found[container["name"]] = counted
    return found


def _is_infeasible(pod: Object, features: ResizingFeatures) -> bool:
    if features.by_condition:
        return (find_condition(pod, "PodResizePending") or {}).get("reason") == _INFEASIBLE
    return (pod.get("status") or {}).get("resize") == _INFEASIBLE


def _reported(pod: Object, features: ResizingFeatures) -> Iterator[tuple[Object, Object]]:
    spec, status = pod["spec"], pod.get("status") or {}
    containers = [*(spec.get("containers") or ())]
    reports = [*(status.get("containerStatuses") or ())]
    if features.sidecars:
        containers += filter(is_sidecar, spec.get("initContainers") or ())
        reports += status.get("initContainerStatuses") or ()
    field = "resources" if features.actual else "allocatedResources"
    by_name = {report["name"]: report for report in reports if report.get(field) is not None}
    for container in containers:
        if container["name"] in by_name:
            yield container, by_name[container["name"]]


def _given(status: Object, features: ResizingFeatures) -> Iterator[Amounts]:
    """Amounts that a container has, and that it was allocated, as far as a release looks at them."""
    if features.actual:
        yield amounts(status["resources"].get("requests"))
    if features.allocated:
        yield amounts(status.get("allocatedResources"))


def _largest(several: list[Amounts], features: ResizingFeatures) -> Amounts:
    """Takes the largest amount of each resource. Raises Panic if others come to first amounts that are not
    there, with 132895: upstream writes them into a map that was never made."""
    first, *others = several
    if features.needs_requests and not first and any(others):
        raise Panic("assignment to entry in nil map")
    names = dict.fromkeys(name for each in several for name in each)
    return {name: max(each.get(name, 0) for each in several) for name in names}


_POD_ADDED = ClusterEvent(EventResource.ASSIGNED_POD, Action.ADD)
_POD_DELETED = ClusterEvent(EventResource.ASSIGNED_POD, Action.DELETE)
_POD_SHRUNK = ClusterEvent(EventResource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
_PENDING_POD_SHRUNK = ClusterEvent(EventResource.UNSCHEDULED_POD, Action.UPDATE_POD_SCALE_DOWN)
_NODE_ADDED = ClusterEvent(EventResource.NODE, Action.ADD)
_NODE_DELETED = ClusterEvent(EventResource.NODE, Action.DELETE)
_POD_RELABELLED = ClusterEvent(EventResource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
_Part = Callable[[Object], Any]
# In the order of NodeSchedulingPropertiesChange (pkg/scheduler/framework/events.go, 1.31 … 1.36).
_NODE_CHANGES: tuple[tuple[Action, Callable[[Object, Object], bool]], ...] = (
    (Action.UPDATE_NODE_TAINT, lambda old, new: _is_cordoned(old) and not _is_cordoned(new)),
    (Action.UPDATE_NODE_ALLOCATABLE, lambda old, new: _allocatable(old) != _allocatable(new)),
    (Action.UPDATE_NODE_LABEL, lambda old, new: _labels(old) != _labels(new)),
    (Action.UPDATE_NODE_TAINT, lambda old, new: _taints(old) != _taints(new)),
)
_PENDING_CHANGES: tuple[tuple[Action, _Part], ...] = (
    (Action.UPDATE_POD_GATES_ELIMINATED, lambda pod: bool(pod["spec"].get("schedulingGates"))),
    (Action.UPDATE_POD_LABEL, lambda pod: pod["metadata"].get("labels")),
    (Action.UPDATE_POD_GENERATED_CLAIM, lambda pod: _status(pod).get("resourceClaimStatuses")),
    (Action.UPDATE_POD_TOLERATION, lambda pod: pod["spec"].get("tolerations")),
)


def _status(obj: Object) -> Object:
    return obj.get("status") or {}


def _allocatable(node: Object) -> Any:
    return _status(node).get("allocatable")


def _labels(node: Object) -> Any:
    return node["metadata"].get("labels") or {}


def _taints(node: Object) -> Any:
    return (node.get("spec") or {}).get("taints") or []


def _is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def is_assigned(pod: Object | None) -> bool:
    return pod is not None and bool(pod["spec"].get("nodeName")) and not is_terminal(pod)


def _shrunk(before: Amounts, now: Amounts) -> bool:
    return any(number > now.get(name, 0) for name, number in before.items())


def _has_pod_affinity(pod: PodInfo) -> bool:
    affinity = pod.spec.get("affinity") or {}
    return bool(affinity.get("podAffinity") or affinity.get("podAntiAffinity"))


class ClusterInformers:
    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        scheduler_names: Collection[str],
        features: SchedulerFeatures,
        panic: Callable[[Panic], None] = raised,
    ) -> None:
        self._panic = panic
        self._cache = cache
        self._queue = queue
        self._features = features
        self._scheduler_names = frozenset(scheduler_names)

    def connect(self, factory: InformerFactory) -> None:
        factory.informer(NODES).add_handler(
            lambda node: self._node(None, node), self._node, lambda node: self._node(node, None)
        )
        factory.informer(PODS).add_handler(
            lambda pod: self._pod(None, pod), self._pod, lambda pod: self._pod(pod, None)
        )

    def _node(self, old: Object | None, new: Object | None) -> None:
        if new is None:
            if old is not None:
                self._cache.remove_node(old["metadata"]["name"])
                if not self._features.ignores_node_deletions:
                    self._queue.move_all_to_active_or_backoff_queue(_NODE_DELETED, old, None)
            return
        self._cache.set_node(new)
        if old is None:
            self._queue.move_all_to_active_or_backoff_queue(_NODE_ADDED, None, new)
            return
        for action, happened in _NODE_CHANGES:
            if happened(old, new):
                self._queue.move_all_to_active_or_backoff_queue(
                    ClusterEvent(EventResource.NODE, action), old, new
                )

    def _pod(self, old: Object | None, new: Object | None) -> None:
        if self._is_ours(old) and not self._is_ours(new) and old is not None:
            self._queue.delete(old["metadata"]["uid"])
            if not is_assigned(new) or self._features.wakes_at_binding:
                self._nomination_ended(old)
        if new is None and old is not None and self._cache.is_assumed(old["metadata"]["uid"]):
            # Bound and deleted while the watch was broken: the informer never showed the pod on its node.
            self._cache.forget(old["metadata"]["uid"])
            self._queue.move_all_to_active_or_backoff_queue(_POD_DELETED, old, None)
            return
        if is_assigned(new) or is_assigned(old):
            self._assigned(old, new)
        elif new is not None and self._is_ours(new):
            self._pending(old, new)

    def _is_ours(self, pod: Object | None) -> bool:
        if pod is None or pod["spec"].get("nodeName") or is_terminal(pod):
            return False
        return (pod["spec"].get("schedulerName") or "default-scheduler") in self._scheduler_names

    def _pending(self, old: Object | None, new: Object) -> None:
        info = PodInfo(new)
        if self._cache.is_assumed(info.uid):
            return
        if old is None or not self._is_ours(old):
            self._queue.add(info)
            return
        if is_resync(old, new):
            return
        events = [
            ClusterEvent(EventResource.UNSCHEDULED_POD, action)
            for action, part in _PENDING_CHANGES
            if part(old) != part(new)
        ]
        if _shrunk(pod_requests(old["spec"]), info.requests):
            events.append(_PENDING_POD_SHRUNK)
        self._queue.update(info, old, events)
        if _status(old).get("nominatedNodeName") != _status(new).get("nominatedNodeName"):
            self._nomination_ended(old)

    def _nomination_ended(self, old: Object) -> None:
        """Requeues pods of the same or a lower priority: for them a nominated pod was on its node already."""
        if self._features.ignores_nominations or not _status(old).get("nominatedNodeName"):
            return
        most = PodInfo(old).priority
        self._queue.move_all_to_active_or_backoff_queue(
            _POD_DELETED, old, None, lambda pod: pod.priority <= most
        )

    def _counted(self, pod: Object) -> PodInfo:
        """Requests of containers that are being resized count as the node reports them; a panic goes to
        `panic`."""
        try:
            return PodInfo(pod, resized(pod, self._features.resizing))
        except Panic as panic:
            self._panic(panic)
            return PodInfo(pod)

    def _assigned(self, old: Object | None, new: Object | None) -> None:
        if new is None or not is_assigned(new):
            if old is not None:
                self._cache.remove_pod(old["metadata"]["uid"])
                self._queue.move_all_to_active_or_backoff_queue(_POD_DELETED, old, new)
            return
        if not is_assigned(old):
            self._cache.add_pod(self._counted(new))
            wakes = _has_pod_affinity if self._features.spread_misses_new_pods else None
            # As upstream, whose handler of assigned pods never saw it before.
            self._queue.move_all_to_active_or_backoff_queue(_POD_ADDED, None, new, wakes)
            return
        if old is not None:
            self._changed(old, new)

    def _changed(self, old: Object, new: Object) -> None:
        before, now = old["metadata"], new["metadata"]
        was, info = self._counted(old), self._counted(new)
        respecified = old["spec"] != new["spec"] or was.resized != info.resized
        relabelled = before.get("labels") != now.get("labels")
        leaving = before.get("deletionTimestamp") != now.get("deletionTimestamp")
        if not respecified and not relabelled and not leaving:
            self._cache.refresh(new)
            return
        self._cache.add_pod(info)
        if respecified and _shrunk(was.requests, info.requests):
            self._queue.move_all_to_active_or_backoff_queue(_POD_SHRUNK, old, new)
        if relabelled:
            self._queue.move_all_to_active_or_backoff_queue(_POD_RELABELLED, old, new)
