"""Records events on immediate claims that wait for a class that does not exist, or for a driver that does not
allocate them (KEP-3063 as drafted).

Drivers cannot recognize a claim without class as their own, a driver that does not run reports nothing, and
no pod has to use the claim, so that the scheduler has nothing to report on. Since 1.26 the controllers of
drivers report missing classes; nobody reports missing drivers. Decisions of ours (docs/coverage/kep-3063.md,
D21 and D22): for classes the reason is that of drivers' controllers and the text that of the scheduler; for
drivers both are modelled on the events of volume claims that wait for a provisioner.
"""

from collections.abc import Callable

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.recorder import EventRecorder
from kubeskew.apimachinery.client.refs import DRARefs
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.clock import Clock, parse_timestamp
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import ControllerContext

_PATIENCE = 15.0  # seconds that a driver has before an event names it
_AGAIN = 300.0  # seconds between two events about the same driver; events are kept for an hour
_EXTERNAL = (
    "Waiting for the claim to be allocated by the resource driver '{}'. If allocation is delayed, please "
    "verify that the controller of the driver is running."
)


class WaitingClaims:
    def __init__(
        self,
        context: ControllerContext,
        client: APIClient,
        refs: DRARefs,
        claims: Informer,
        recorder: EventRecorder,
        enqueue: Callable[[Object], None],
    ) -> None:
        """`enqueue` is called for claims whose class was created or deleted; `check` must follow."""
        self._ref, self._classes_ref = refs.claims, refs.device_classes
        self._client = client
        self._clock: Clock = context.environment.clock
        self._classes = context.informer(refs.device_classes)
        self._recorder = recorder
        self._enqueue = enqueue
        self._claims = claims
        claims.add_index("class", lambda claim: [claim["spec"].get("resourceClassName") or ""])
        self._classes.add_handler(added=self._class_changed, deleted=self._class_changed)

    def _class_changed(self, resource_class: Object) -> None:
        for claim in self._claims.by_index("class", resource_class["metadata"]["name"]):
            self._enqueue(claim)

    async def check(self, claim: Object) -> float | None:
        """Records an event on a claim that waits; the result is the seconds until the next check.

        None if only a change of the claim or of a class is worth another look. Raises StatusError.
        """
        spec, status = claim["spec"], claim.get("status") or {}
        waits = status.get("phase", "Pending") == "Pending" and spec.get("allocationMode") == "Immediate"
        if not waits or claim["metadata"].get("deletionTimestamp"):
            return None
        name = spec.get("resourceClassName") or ""
        resource_class = await self._class(name)
        if resource_class is None:
            self._emit(claim, "Warning", "Failed", f"resource class {name} does not exist")
            return None
        left = _PATIENCE - self._age(claim)
        if left > 0:
            return left
        driver = resource_class.get("driverName") or ""
        self._emit(claim, "Normal", "ExternalAllocation", _EXTERNAL.format(driver))
        return _AGAIN

    async def _class(self, name: str) -> Object | None:
        """Asks the server if the informer has no class: it may be behind."""
        found = self._classes.get("", name)
        if found is not None:
            return found
        try:
            return await self._client.get(self._classes_ref, name)
        except StatusError as error:
            if not is_reason(error, "NotFound"):
                raise
        return None

    def _age(self, claim: Object) -> float:
        created = claim["metadata"].get("creationTimestamp")
        return (self._clock.now() - parse_timestamp(created)).total_seconds() if created else _PATIENCE

    def _emit(self, claim: Object, kind: str, reason: str, text: str) -> None:
        about = {"apiVersion": self._ref.api_version, "kind": self._ref.kind, **claim}
        self._recorder.event(about, kind, reason, text)
