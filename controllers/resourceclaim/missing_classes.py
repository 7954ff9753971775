"""Tells on immediate claims that their class does not exist (KEP-3063 as drafted).

No driver can know such a claim for its own, and no pod need name it, so that the scheduler has nobody to
tell. Since 1.26 the controllers of drivers tell it. A decision of ours
(docs/coverage/kep-3063.md, D21): the reason is that of drivers' controllers, the text that of the scheduler.
"""

from collections.abc import Callable

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import DRARefs
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import ControllerContext


class MissingClasses:
    """Compares pending immediate claims with the classes that there are."""

    def __init__(
        self,
        context: ControllerContext,
        client: APIClient,
        refs: DRARefs,
        claims: Informer,
        recorder: EventRecorder,
        enqueue: Callable[[Object], None],
    ) -> None:
        """`enqueue` has `check` called for a claim whose class has gone."""
        self._ref, self._classes_ref = refs.claims, refs.device_classes
        self._client = client
        self._classes = context.informer(refs.device_classes)
        self._recorder = recorder
        self._enqueue = enqueue
        self._claims = claims
        claims.add_index("class", lambda claim: [claim["spec"].get("resourceClassName") or ""])
        self._classes.add_handler(deleted=self._class_deleted)

    def _class_deleted(self, resource_class: Object) -> None:
        for claim in self._claims.by_index("class", resource_class["metadata"]["name"]):
            self._enqueue(claim)

    async def check(self, claim: Object) -> None:
        """Records a Warning on a claim that waits for a class that is missing.

        The server has the last word: the class may be newer than what is known here. Raises StatusError.
        """
        spec, status = claim["spec"], claim.get("status") or {}
        waits = status.get("phase", "Pending") == "Pending" and spec.get("allocationMode") == "Immediate"
        name = spec.get("resourceClassName") or ""
        if not waits or claim["metadata"].get("deletionTimestamp") or self._classes.get("", name):
            return
        try:
            await self._client.get(self._classes_ref, name)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
        else:
            return
        about = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, **claim}
        self._recorder.event(about, "Warning", "Failed", f"resource class {name} does not exist")
