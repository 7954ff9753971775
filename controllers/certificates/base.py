"""The base of the controllers of certificate signing requests.

Source: k8s.io/kubernetes/pkg/controller/certificates/certificate_controller.go, 1.36.
"""

from abc import abstractmethod

from kubeskew.apimachinery.client.refs import Ref
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

REQUESTS = Ref("certificates.k8s.io", "v1", "certificatesigningrequests", False, "CertificateSigningRequest")


class RequestController(Controller):
    """Handles requests that have no certificate yet."""

    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informer(REQUESTS)
        self._requests.add_handler(self.enqueue, lambda _, new: self.enqueue(new))

    async def sync(self, key: Key) -> None:
        request = self._requests.get("", key.name)
        if request is not None and not (request.get("status") or {}).get("certificate"):
            await self.handle(request)

    @abstractmethod
    async def handle(self, request: Object) -> None:
        """Handles a request that has no certificate."""


def conditions(request: Object) -> list[Object]:
    return (request.get("status") or {}).get("conditions") or []


def has(request: Object, kind: str) -> bool:
    """Returns whether a condition of the kind is true (old ones have an empty status)."""
    return any(
        condition["type"] == kind and condition.get("status") in {None, "", "True"}
        for condition in conditions(request)
    )


def with_added_condition(request: Object, kind: str, reason: str, message: str) -> Object:
    """Returns the request with one more condition; those it has stay, whatever their types."""
    added = {"type": kind, "status": "True", "reason": reason, "message": message}
    status = request.get("status") or {}
    return {**request, "status": {**status, "conditions": [*conditions(request), added]}}
