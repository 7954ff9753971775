"""The base of both controllers of services: syncs a service when it or a selected pod changes."""

from kubeskew.apimachinery.client.refs import PODS, SERVICES
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.endpoints.backends import selector_of
from kubeskew.controllers.endpoints.triggers import TriggerTimes
from kubeskew.controllers.framework.base import Controller, ControllerContext


class ServiceController(Controller):
    """A controller whose keys are services."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.services = context.informer(SERVICES)
        self.triggers = TriggerTimes()
        self._pods = context.informer(PODS)
        self.services.add_handler(self.enqueue, lambda _, new: self.enqueue(new), self.enqueue)
        self._pods.add_handler(self._pod_changed, self._pod_updated, self._pod_changed)

    def _pod_changed(self, pod: Object) -> None:
        labels = (pod["metadata"].get("labels") or {}).items()
        for service in self.services.list(pod["metadata"]["namespace"]):
            selector = selector_of(service)
            if selector and selector.items() <= labels:
                self.enqueue(service)

    def _pod_updated(self, old: Object, new: Object) -> None:
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._pod_changed(old)

    def selected(self, service: Object) -> list[Object]:
        selector = selector_of(service).items()
        candidates = self._pods.list(service["metadata"]["namespace"])
        return [pod for pod in candidates if selector <= (pod["metadata"].get("labels") or {}).items()]
