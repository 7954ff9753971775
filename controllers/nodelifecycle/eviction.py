"""The taint eviction controller: pods leave nodes whose NoExecute taints they do not tolerate.

Behaviour of k8s.io/kubernetes/pkg/controller/tainteviction, 1.36.
"""

from kubeskew.apimachinery.client.refs import NODES, PODS
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, key_of
from kubeskew.controllers.framework.features import DisruptionMarks
from kubeskew.controllers.framework.pod_control import mark_and_delete
from kubeskew.controllers.nodelifecycle import health
from kubeskew.controllers.nodelifecycle.health import node_names

_FIELD_MANAGER = "TaintManager"


class TaintEvictionController(Controller):
    name = "taint-eviction-controller"
    component = "taint-eviction-controller"
    queue_name = "noexec_taint_pod"
    default_workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._disruption = DisruptionMarks.of(context.environment.gates)
        self._due: dict[Key, float] = {}  # when the pod has to go; monotonic
        self._evicted: dict[Key, str] = {}  # uids of pods that were evicted
        self._nodes = context.informer(NODES)
        self._pods = context.informer(PODS)
        self._pods.add_index("node", node_names)
        self._nodes.add_handler(self._node_added, self._node_updated)
        self._pods.add_handler(self._pod_changed, lambda _, new: self._pod_changed(new), self._pod_deleted)

    def _node_added(self, node: Object) -> None:
        if health.no_execute(node):
            self._enqueue_pods(node)

    def _node_updated(self, old: Object, new: Object) -> None:
        if health.no_execute(old) != health.no_execute(new):
            self._enqueue_pods(new)

    def _enqueue_pods(self, node: Object) -> None:
        for pod in self._pods.by_index("node", node["metadata"]["name"]):
            self.enqueue(pod)

    def _pod_changed(self, pod: Object) -> None:
        if pod["spec"].get("nodeName"):
            node = self._nodes.get("", pod["spec"]["nodeName"])
            if node is not None and (health.no_execute(node) or key_of(pod) in self._due):
                self.enqueue(pod)

    def _pod_deleted(self, pod: Object) -> None:
        self._due.pop(key_of(pod), None)
        self._evicted.pop(key_of(pod), None)

    async def sync(self, key: Key) -> None:
        """Pods that are being deleted are evicted, too, each once (pkg/controller/tainteviction)."""
        pod = self._pods.get(*key)
        if pod is None:
            self._due.pop(key, None)
            self._evicted.pop(key, None)
            return
        node = self._nodes.get("", pod["spec"].get("nodeName") or "")
        present = health.no_execute(node) if node is not None else []
        left = health.seconds_left(pod, present) if present else None
        if left is None:
            self._evicted.pop(key, None)
            if self._due.pop(key, None) is not None:
                self._emit(pod, f"Cancelling deletion of Pod {key}")
            return
        if self._evicted.get(key) == pod["metadata"]["uid"]:
            return
        now = self.clock.monotonic()
        due = self._due.setdefault(key, now + left) if left else now
        if due > now:
            self.queue.add_after(key, due - now)
            return
        await self._evict(key, pod)

    def _emit(self, pod: Object, text: str) -> None:
        self.recorder.event(pod, "Normal", "TaintManagerEviction", text)

    async def _evict(self, key: Key, pod: Object) -> None:
        self._emit(pod, f"Marking for deletion Pod {key}")
        message = "Taint manager: deleting due to NoExecute taint"
        try:
            await mark_and_delete(
                self.client,
                self.clock,
                pod,
                "DeletionByTaintManager",
                message,
                self._disruption,
                _FIELD_MANAGER,
            )
        except StatusError as error:
            if error.code not in (404, 409):
                raise
        self._due.pop(key, None)
        if self._pods.get(*key) is not None:
            self._evicted[key] = pod["metadata"]["uid"]
