"""The resource claim controller of KEP-3063 as drafted.

It is pkg/controller/volume/ephemeral of 1.25 with other types, and drops reservations, too.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.controllers.framework.base import ControllerContext
from kubeskew.controllers.resourceclaim.controller import ResourceClaimController, Task
from kubeskew.controllers.resourceclaim.creation import Owner, TemplateOf
from kubeskew.controllers.resourceclaim.drafted.waiting_claims import WaitingClaims
from kubeskew.controllers.resourceclaim.reservations import ReservedFor


class OwnerReferences(ReservedFor):
    """Users are owner references, which have a kind in place of a resource, and need not be pods."""

    async def still_uses(self, claim: Object, consumer: Object) -> bool:
        if (consumer.get("apiVersion"), consumer.get("kind")) != ("v1", "Pod"):
            return True
        return await super().still_uses(claim, {**consumer, "resource": "pods"})


class DraftedClaimController(ResourceClaimController):
    reserved_for = OwnerReferences

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._waiting = WaitingClaims(
            context, self.client, self._refs, self._claims, self.recorder, self._enqueue_claim
        )

    def _templates(self, context: ControllerContext) -> TemplateOf:
        return _inline_template

    async def _sync_claim(self, key: Task, claim: Object) -> None:
        seconds = await self._waiting.check(claim)
        if seconds is not None:
            self.queue.add_after(key, seconds)
        await super()._sync_claim(key, claim)


def _inline_template(_: Owner, entry: Object) -> Object:
    template: Object = entry["template"]
    return template
