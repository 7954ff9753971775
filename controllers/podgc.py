"""The pod garbage collector: removes pods of nodes that are gone, terminated pods beyond a threshold, and
pods that are being deleted and have no node, or one that is out of service.

Source: k8s.io/kubernetes/pkg/controller/podgc, 1.36.
"""

from collections.abc import Coroutine
from typing import Any

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.clock import timestamp
from kubeskew.apimachinery.conditions import find_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_terminal
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.framework.features import DisruptionMarks
from kubeskew.controllers.framework.pod_control import observed, write_status

_TERMINATED_THRESHOLD = 12500
_FIELD_MANAGER = "PodGC"
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


class PodGarbageCollector(Controller):
    name = "pod-garbage-collector-controller"
    component = "pod-garbage-collector"
    queue_name = "orphaned_pods_nodes"
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._disruption = DisruptionMarks.of(context.environment.gates)
        self._nodes = context.informer(NODES)
        self._pods = context.informer(PODS)
        self._missing: dict[str, float] = {}  # node names without a node, and since when

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._rounds()]

    async def sync(self, key: Key) -> None:
        """Pods come here once they were chosen: as orphaned, as being deleted or beyond the threshold."""
        pod = self._pods.get(*key)
        if pod is None:
            return
        if self._is_left(pod):
            if self._disruption.marks_pods and not is_terminal(pod):
                await self._write(pod, {"phase": "Failed", **observed(pod, self._disruption)})
            await self._delete(key, pod)
            return
        node = pod["spec"].get("nodeName") or ""
        over = is_terminal(pod)
        if not over or self._disruption.marks_ended:
            orphaned = bool(node) and await self._is_gone(node)
            if not over and not orphaned:
                return
            if orphaned and self._disruption.marks_pods:
                await self._mark_failed(pod)
        await self._delete(key, pod)

    async def _delete(self, key: Key, pod: Object) -> None:
        uid = pod["metadata"]["uid"]
        try:
            await self.client.delete(
                PODS, key.name, key.namespace, grace_period=0, preconditions={"uid": uid}
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise

    async def _rounds(self) -> None:
        while True:
            leaving = [pod for pod in self._pods.list() if self._is_left(pod)]
            for pod in [*self._orphaned(), *leaving, *self._terminated()]:
                self.queue.add(key_of(pod))
            await self.clock.sleep(self.environment.periods.pod_gc)

    def _orphaned(self) -> list[Object]:
        """Nodes must be missing for the quarantine time, which then begins again."""
        now = self.clock.monotonic()
        bound = [pod for pod in self._pods.list() if pod["spec"].get("nodeName")]
        absent = {pod["spec"]["nodeName"] for pod in bound}
        absent = {name for name in absent if self._nodes.get("", name) is None}
        self._missing = {name: self._missing.get(name, now) for name in sorted(absent)}
        gone = {
            name
            for name, since in self._missing.items()
            if now - since >= self.environment.periods.pod_gc_quarantine
        }
        self._missing |= dict.fromkeys(sorted(gone), now)
        return [pod for pod in bound if pod["spec"]["nodeName"] in gone]

    def _is_left(self, pod: Object) -> bool:
        """True of a pod that is being deleted, and has no kubelet that would end it."""
        if not pod["metadata"].get("deletionTimestamp"):
            return False
        name = pod["spec"].get("nodeName")
        node = self._nodes.get("", name) if name else None
        if not name or node is None or not self._disruption.out_of_service:
            return not name
        ready = find_condition(node, "Ready") or {}
        taints = node["spec"].get("taints") or ()
        return ready.get("status") != "True" and any(taint["key"] == _OUT_OF_SERVICE for taint in taints)

    def _terminated(self) -> list[Object]:
        found = [pod for pod in self._pods.list() if is_terminal(pod)]
        excess = len(found) - _TERMINATED_THRESHOLD
        if excess <= 0:
            return []
        found.sort(key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        return found[:excess]

    async def _is_gone(self, name: str) -> bool:
        try:
            await self.client.get(NODES, name)
        except StatusError as error:
            if error.code == 404:
                return True
            raise
        return False

    async def _mark_failed(self, pod: Object) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists",
            "lastTransitionTime": timestamp(self.clock.now()),
            **observed(pod, self._disruption),
        }
        phase = {} if is_terminal(pod) else {"phase": "Failed", **observed(pod, self._disruption)}
        await self._write(pod, {**phase, "conditions": [condition]})

    async def _write(self, pod: Object, status: Object) -> None:
        try:
            await write_status(self.client, pod, status, self._disruption, _FIELD_MANAGER)
        except StatusError as error:
            if error.code not in (404, 409):
                raise
