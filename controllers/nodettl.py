"""The TTL controller: annotates nodes with the time for which kubelets may keep secrets and config maps, by
the size of the cluster.

Source: k8s.io/kubernetes/pkg/controller/ttl/ttl_controller.go, 1.36.
"""

from kubeskew.apimachinery.client.refs import NODES
from kubeskew.apimachinery.client.rest import STRATEGIC_PATCH
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

ANNOTATION = "node.alpha.kubernetes.io/ttl"
# (least nodes, most nodes, seconds): the ranges overlap, so that a size at a border does not oscillate.
_STEPS = ((0, 100, 0), (90, 500, 15), (450, 1000, 30), (900, 2000, 60), (1800, None, 300))


class NodeTTLController(Controller):
    name = "ttl-controller"
    component = "ttl-controller"
    queue_name = "ttlcontroller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._step = 0
        self._count = 0
        self._nodes = context.informer(NODES)
        self._nodes.add_handler(self._added, lambda _, new: self._changed(new), lambda _: self._deleted())

    def _added(self, node: Object) -> None:
        self._count += 1
        most = _STEPS[self._step][1]
        if most is not None and self._count > most:
            self._step += 1
        self.enqueue(node)

    def _changed(self, node: Object) -> None:
        if self._is_stale(node):
            self.enqueue(node)

    def _deleted(self) -> None:
        self._count -= 1
        if self._count < _STEPS[self._step][0]:
            self._step -= 1

    def _is_stale(self, node: Object) -> bool:
        return (node["metadata"].get("annotations") or {}).get(ANNOTATION) != str(_STEPS[self._step][2])

    async def sync(self, key: Key) -> None:
        node = self._nodes.get(*key)
        if node is None or not self._is_stale(node):
            return
        body = {"metadata": {"annotations": {ANNOTATION: str(_STEPS[self._step][2])}}}
        await self.client.patch(NODES, key.name, "", body, STRATEGIC_PATCH)
