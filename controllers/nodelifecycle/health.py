"""The node lifecycle controller: detects nodes that stop reporting, and taints nodes by their conditions;
with the taints that a node should have, and the time for which a pod tolerates them.

Sources: k8s.io/kubernetes/pkg/controller/nodelifecycle and tainteviction, 1.36;
k8s.io/kubernetes/pkg/controller/nodelifecycle, 1.36.
"""

import copy
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.client.refs import LEASES, NODES, PODS
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.selectors.nodes import tolerates
from kubeskew.controllers.framework import pods
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_BY_CONDITION = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_NO_SCHEDULE_KEYS = {*_BY_CONDITION.values(), UNSCHEDULABLE}
_NO_EXECUTE_KEYS = {NOT_READY, UNREACHABLE}
_LEASE_NAMESPACE = "kube-node-lease"
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_NOT_COUNTED = "node.kubernetes.io/exclude-disruption"


def conditions(node: Object) -> list[Object]:
    found: list[Object] = (node.get("status") or {}).get("conditions") or []
    return found


def is_ready(node: Object) -> bool:
    return is_condition_true(node, "Ready")


def _keys(node: Object) -> set[str]:
    found = {
        _BY_CONDITION.get((condition["type"], condition["status"])) for condition in conditions(node)
    } - {None}
    keys = {key for key in found if key is not None}
    if node["spec"].get("unschedulable"):
        keys.add(UNSCHEDULABLE)
    return keys


def wanted_taints(node: Object, now: str, *, evicting: bool = True) -> list[Object]:
    """Taints follow from conditions and `spec.unschedulable`; those of others stay.

    `now` dates new taints; without `evicting` none is NoExecute.
    """
    keys = _keys(node)
    present = node["spec"].get("taints") or []
    wanted = {(key, "NoSchedule") for key in keys}
    if evicting:
        wanted |= {(key, "NoExecute") for key in keys & _NO_EXECUTE_KEYS}
    kept = [taint for taint in present if not _is_ours(taint) or (taint["key"], taint["effect"]) in wanted]
    known = {(taint["key"], taint["effect"]) for taint in kept}
    added = [_taint(key, effect, now) for key, effect in sorted(wanted - known)]
    return [*kept, *added]


def _is_ours(taint: Object) -> bool:
    keys = {"NoSchedule": _NO_SCHEDULE_KEYS, "NoExecute": _NO_EXECUTE_KEYS}.get(taint["effect"], set())
    return taint["key"] in keys


def _taint(key: str, effect: str, now: str) -> Object:
    return {"key": key, "effect": effect, "timeAdded": now}


def no_execute(node: Object) -> list[Object]:
    return [taint for taint in node["spec"].get("taints") or () if taint["effect"] == "NoExecute"]


def seconds_left(pod: Object, taints: Iterable[Object]) -> float | None:
    """A pod tolerates the taints for these seconds: 0 not at all, None for ever."""
    tolerations = pod["spec"].get("tolerations") or []
    used = []
    for taint in taints:
        matching = [toleration for toleration in tolerations if tolerates(toleration, taint)]
        if not matching:
            return 0.0
        # As upstream, the first of several tolerations for a taint counts.
        used.append(matching[0])
    limits = [
        max(0, toleration["tolerationSeconds"])
        for toleration in used
        if toleration.get("tolerationSeconds") is not None
    ]
    return float(min(limits)) if limits else None


@dataclass(slots=True)
class _NodeHealthData:
    """Nodes were last alive `at`, in seconds of this process's clock."""

    seen: Any
    at: float
    grace: float


class NodeLifecycleController(Controller):
    name = "node-lifecycle-controller"
    queue_name = "node_lifecycle_controller"
    component = "node-controller"
    default_workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._grace = context.environment.periods.node_grace
        self._signs: dict[str, _NodeHealthData] = {}
        self._fallen: set[str] = set()  # nodes that stopped reporting; their pods are still to be marked
        self._nodes = context.informer(NODES)
        self._leases = context.informer(LEASES, _LEASE_NAMESPACE)
        self._pods = context.informer(PODS)
        self._pods.add_index("node", node_names)
        self._nodes.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self._deleted)

    def _deleted(self, node: Object) -> None:
        self._fallen.discard(node["metadata"]["name"])
        if self._signs.pop(node["metadata"]["name"], None) is not None:
            self._emit(node, "RemovingNode", "Removing Node {name} from Controller")

    def _emit(self, node: Object, reason: str, text: str) -> None:
        name = node["metadata"]["name"]
        self.recorder.event(node, "Normal", reason, f"Node {name} event: {text.format(name=name)}")

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._monitor()]

    async def sync(self, key: Key) -> None:
        node = self._nodes.get(*key)
        if node is None or node["metadata"].get("deletionTimestamp"):
            return
        present = node["spec"].get("taints") or []
        wanted = wanted_taints(node, timestamp(self.clock.now()), evicting=self._some_ready())
        if wanted != present:
            patch = {
                "metadata": {"resourceVersion": node["metadata"]["resourceVersion"]},
                "spec": {"taints": wanted or None},
            }
            await self.client.patch(NODES, key.name, "", patch)

    def _some_ready(self) -> bool:
        """Nobody is evicted while no node is ready: the fault is likely in this process then."""
        counted = (
            node for node in self._nodes.list() if _NOT_COUNTED not in (node["metadata"].get("labels") or {})
        )
        return any(is_ready(node) for node in counted)

    # -- nodes that stopped reporting

    async def _monitor(self) -> None:
        while True:
            for node in self._nodes.list():
                name, ready = node["metadata"]["name"], is_ready(node)
                if ready:
                    self._fallen.discard(name)
                try:
                    await self._check(node)
                    if name in self._fallen:
                        await self._mark_pods_not_ready(name)
                except (*CONNECTION_ERRORS, StatusError):
                    continue  # tried again in the next round
                if not ready:
                    self.enqueue(node)  # others may have been added or removed
            await self.clock.sleep(self.environment.periods.node_monitor)

    async def _check(self, node: Object) -> None:
        name, now = node["metadata"]["name"], self.clock.monotonic()
        lease = self._leases.get(_LEASE_NAMESPACE, name)
        renewed = lease["spec"].get("renewTime") if lease is not None else None
        heartbeats = [condition.get("lastHeartbeatTime") for condition in conditions(node)]
        seen = (renewed, heartbeats)
        sign = self._signs.get(name)
        if sign is None:
            self._emit(node, "RegisteredNode", "Registered Node {name} in Controller")
            # A node seen for the first time gets time to report.
            grace = self._grace if heartbeats else self.environment.periods.node_startup_grace
            self._signs[name] = _NodeHealthData(seen, now, grace)
        elif sign.seen != seen:
            self._signs[name] = _NodeHealthData(seen, now, self._grace)
        elif now - sign.at > sign.grace:
            await self._mark_unknown(node)

    async def _mark_unknown(self, node: Object) -> None:
        changed = copy.deepcopy(node)
        status = changed.setdefault("status", {})
        known = {condition["type"]: condition for condition in status.setdefault("conditions", [])}
        now = timestamp(self.clock.now())
        for kind in _REPORTED:
            one = known.get(kind)
            if one is None:
                status["conditions"].append(
                    {
                        "type": kind,
                        "status": "Unknown",
                        "reason": "NodeStatusNeverUpdated",
                        "message": "Kubelet never posted node status.",
                        "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
                        "lastTransitionTime": now,
                    }
                )
            elif one["status"] != "Unknown":
                one.update(
                    status="Unknown",
                    reason="NodeStatusUnknown",
                    message="Kubelet stopped posting node status.",
                    lastTransitionTime=now,
                )
        if changed == node:
            return
        await self.client.update(NODES, changed, "status")
        if is_ready(node):
            name = node["metadata"]["name"]
            self.recorder.event(node, "Normal", "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            self._fallen.add(name)

    async def _mark_pods_not_ready(self, node_name: str) -> None:
        """Pods of a node that stopped reporting become not ready, so that services skip them."""
        for pod in self._pods.by_index("node", node_name):
            if not pods.is_ready(pod):
                continue
            changed = copy.deepcopy(pod)
            for condition in changed["status"]["conditions"]:
                if condition["type"] == "Ready":
                    condition.update(status="False", lastTransitionTime=timestamp(self.clock.now()))
            self.recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")
            try:
                await self.client.update(PODS, changed, "status")
            except StatusError as error:
                if error.code != 404:
                    raise
        self._fallen.discard(node_name)


def node_names(pod: Object) -> list[str]:
    name = pod["spec"].get("nodeName")
    return [name] if name else []
