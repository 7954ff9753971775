"""Removes signing requests that are no longer needed.

Source: k8s.io/kubernetes/pkg/controller/certificates/cleaner/cleaner.go, 1.36.
"""

import base64
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.certificates.base import REQUESTS, conditions
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key

_PERIOD_SECONDS = 3600.0
_DECIDED = timedelta(hours=1)
_PENDING = timedelta(hours=24)


class CleaningController(Controller):
    name = "certificatesigningrequest-cleaner-controller"
    component = "certificatesigningrequest-cleaner-controller"
    queue_name = None  # it has no queue: the cleaner goes through all requests
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._requests = context.informer(REQUESTS)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._rounds()]

    async def _rounds(self) -> None:
        while True:
            for request in self._requests.list():
                self.enqueue(request)
            await self.clock.sleep(_PERIOD_SECONDS)

    async def sync(self, key: Key) -> None:
        request = self._requests.get("", key.name)
        if request is None or not _is_old(request, self.clock.now()):
            return
        try:
            await self.client.delete(REQUESTS, key.name)
        except StatusError as error:
            if error.code != 404:
                raise


def _is_old(request: Object, now: datetime) -> bool:
    certificate = (request.get("status") or {}).get("certificate")
    if not conditions(request):
        return _before(request["metadata"].get("creationTimestamp"), now - _PENDING)
    for condition in conditions(request):
        kind = condition["type"]
        ended = kind in {"Denied", "Failed"} or (kind == "Approved" and bool(certificate))
        if ended and _before(condition.get("lastUpdateTime"), now - _DECIDED):
            return True
    return bool(certificate) and _has_expired(str(certificate), now)


def _before(time: str | None, moment: datetime) -> bool:
    return bool(time) and parse_timestamp(str(time)) < moment


def _has_expired(certificate: str, now: datetime) -> bool:
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(base64.b64decode(certificate)).not_valid_after_utc < now
    except ValueError:
        return False
