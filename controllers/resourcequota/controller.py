"""The resource quota controller: measures the usage that a quota limits, and corrects the usage in its
status: objects that are deleted, or end, give back their share.

Admission charges a quota before an object is stored; this makes it right again. Only resources that some
quota limits are watched.

A limit is in effect once the quota's status names it: until then admission charges nothing for it. An object
that is created between the measurement and its write would never be counted, as upstream; nor would a charge
for an object that is not stored or not seen yet, while other usage is given back. So when the status has been
written, the objects are listed and counted once more as soon as the quota has rested for a moment.

Sources: k8s.io/apiserver/pkg/quota/v1/resources.go (CalculateUsage) and generic/evaluator.go, 1.36;
k8s.io/kubernetes/pkg/controller/resourcequota (resource_quota_controller.go and resource_quota_monitor.go),
1.36.
"""

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple

from kubeskew.apimachinery.client.informer import Informer
from kubeskew.apimachinery.client.refs import PODS, RESOURCE_QUOTAS, Ref, dra_refs
from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quota.amounts import Amounts, add, amounts, count, mask, texts
from kubeskew.apimachinery.quota.claims import ClaimFacts, DeviceClasses
from kubeskew.apimachinery.quota.evaluators import Evaluator, scope_selectors
from kubeskew.apimachinery.quota.registry import Evaluators
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key
from kubeskew.controllers.framework.discovery import served_resources
from kubeskew.controllers.resourcequota.features import QuotaFeatures

# The objects of a resource in a namespace; None if the resource is not served.
Listing = Callable[[GroupResource, str], Iterable[Object] | None]
_REST_SECONDS = 1.0  # seconds in which an admitted write is certainly stored


def measure(quota: Object, evaluators: Evaluators, listing: Listing) -> Amounts:
    """Only resources with an evaluator are measured."""
    hard = quota["spec"].get("hard") or {}
    namespace = quota["metadata"]["namespace"]
    total: Amounts = {}
    for evaluator in evaluators.for_names(hard):
        objects = listing(evaluator.resource, namespace)
        if objects is not None:
            total = add(total, _used(quota, evaluator, objects))
    return mask(total, hard)


def _used(quota: Object, evaluator: Evaluator, objects: Iterable[Object]) -> Amounts:
    names = evaluator.matching(quota["spec"].get("hard") or {})
    total: Amounts = dict.fromkeys(names, count(0))
    selectors = scope_selectors(quota["spec"])
    for obj in objects:
        if evaluator.in_all(selectors, obj):
            total = add(total, mask(evaluator.usage(obj), names))
    return total


class QuotaRecount(NamedTuple):
    namespace: str
    name: str
    what: str = "recount"  # never equal to a quota's key


class CountedObjects:
    def __init__(self, pods: Informer) -> None:
        """`pods` are needed for claims, which are created for pods; they need not be counted themselves."""
        self.pods = pods
        self.classes: Informer | None = None  # where names of classes count
        self.counted: dict[GroupResource, Informer] = {}

    def device_classes(self) -> DeviceClasses:
        return DeviceClasses.of(self.classes.list() if self.classes is not None else ())

    def claims(self, namespace: str) -> Iterable[Object]:
        informer = self.counted.get(GroupResource("resource.k8s.io", "resourceclaims"))
        return informer.list(namespace) if informer is not None else ()

    def listing(self, resource: GroupResource, namespace: str) -> Iterable[Object] | None:
        """None unless the informer has synced."""
        informer = self.counted.get(resource)
        return informer.list(namespace) if informer is not None and informer.has_synced else None


class ResourceQuotaController(Controller):
    name = "resourcequota-controller"
    component = "resourcequota-controller"
    queue_name = "resourcequota_primary"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._context = context
        self._own: list[Informer] = []  # those that nobody else has
        self._resting: dict[QuotaRecount, str] = {}  # the quota's revision at the last sync
        self._quotas = context.informer(RESOURCE_QUOTAS)
        self._quotas.add_handler(self.enqueue, self._quota_changed)
        self._stored = stored = CountedObjects(context.informer(PODS))
        gates, facts = (
            self.environment.gates,
            ClaimFacts(stored.device_classes, stored.pods.get, stored.claims),
        )
        self._evaluators = Evaluators(gates, self.clock, facts)
        if QuotaFeatures.of(gates).counts_implicit_names:
            stored.classes = context.informer(dra_refs(self.environment.version).device_classes)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._resync()]

    async def stop(self) -> None:
        await super().stop()
        for informer in self._own:
            await informer.stop()

    async def _resync(self) -> None:
        while True:
            await self.clock.sleep(self.environment.periods.quota_resync)
            for quota in self._quotas.list():
                self.enqueue(quota)

    @property
    def recounting(self) -> bool:
        return bool(self._resting)

    # --- what makes a quota be measured again --------------------------------------------------------------

    def _quota_changed(self, old: Object, new: Object) -> None:
        """Only changes of the spec matter; controller and admission write the status."""
        if amounts(old["spec"].get("hard")) != amounts(new["spec"].get("hard")):
            self.enqueue(new)

    def _replenish(self, evaluator: Evaluator, obj: Object) -> None:
        for quota in self._quotas.list(obj["metadata"].get("namespace") or ""):
            if evaluator.matching((quota.get("status") or {}).get("hard") or {}):
                self.enqueue(quota)

    def _object_changed(self, evaluator: Evaluator, old: Object, new: Object) -> None:
        if evaluator.freed(old, new):
            self._replenish(evaluator, new)

    # --- what there is -------------------------------------------------------------------------------------

    async def _follow(self, evaluators: Iterable[Evaluator]) -> bool:
        """Watches new resources; False if one of them is not served."""
        missing = [evaluator for evaluator in evaluators if evaluator.resource not in self._stored.counted]
        if missing:
            await self._monitor(missing)
        known = True
        for evaluator in evaluators:
            monitor = self._stored.counted.get(evaluator.resource)
            if monitor is not None:
                await monitor.settled()
            if monitor is None or monitor.is_unserved:
                known = False
        return known

    async def _monitor(self, evaluators: Iterable[Evaluator]) -> None:
        """Resources that are only counted are watched by their metadata."""
        served = {
            resource.ref.group_resource: resource.ref
            for resource in reversed(await served_resources(self.client))
        }
        for evaluator in evaluators:
            ref = self._ref(evaluator, served)
            if ref is None or evaluator.resource in self._stored.counted:
                continue
            if type(evaluator) is Evaluator:
                monitor = Informer(
                    *(self.client, ref, self.clock),
                    entropy=self.environment.entropy,
                    metadata_only=True,
                    periods=self.environment.periods,
                )
                self._own.append(monitor)
            else:
                monitor = self._context.informers.informer(ref)
            gone = partial(self._replenish, evaluator)
            monitor.add_handler(None, partial(self._object_changed, evaluator), gone)
            self._stored.counted[evaluator.resource] = monitor
            monitor.start()

    def _ref(self, evaluator: Evaluator, served: dict[GroupResource, Ref]) -> Ref | None:
        """Claims are watched in the version that components of this release use, others in the
        preferred one.
        """
        ref = served.get(evaluator.resource)
        if ref is not None and ref.group == "resource.k8s.io" and ref.plural == "resourceclaims":
            return dra_refs(self.environment.version).claims
        return ref

    # --- measuring -----------------------------------------------------------------------------------------

    async def sync(self, key: Key | QuotaRecount) -> None:
        if isinstance(key, QuotaRecount):
            await self._recount(key)
            return
        quota = self._quotas.get(key.namespace, key.name)
        if quota is None:
            return
        hard = quota["spec"].get("hard") or {}
        if not await self._follow(self._evaluators.for_names(hard)):
            self.queue.add_after(key, self.environment.periods.quota_discovery)
        quota = self._quotas.get(key.namespace, key.name)
        if quota is None or quota["spec"].get("hard", {}) != hard:
            return  # it has been queued again
        stored = await self._write(quota, self._stored.listing)
        if stored is not quota:
            self._recount_after_rest(QuotaRecount(*key), stored)

    async def _write(self, quota: Object, listing: Listing) -> Object:
        """Measures, and writes the usage if it changed; the quota is returned as stored."""
        hard, status = quota["spec"].get("hard") or {}, quota.get("status") or {}
        before = amounts(status.get("used"))
        used = mask({**before, **measure(quota, self._evaluators, listing)}, hard)
        same = amounts(status.get("hard")) == amounts(hard) and before == used
        if same and status.get("hard") is not None and status.get("used") is not None:
            return quota
        new_status = {"hard": hard, "used": texts(used)}
        return await self.client.update(RESOURCE_QUOTAS, {**quota, "status": new_status}, "status")

    def _recount_after_rest(self, key: QuotaRecount, quota: Object) -> None:
        self._resting[key] = quota["metadata"]["resourceVersion"]
        self.queue.add_after(key, _REST_SECONDS)

    async def _recount(self, key: QuotaRecount) -> None:
        """Measures once more from the server, unless admission is charging the quota now.

        An object that is charged may not be stored yet, and its charge would be given back.
        """
        quota = self._quotas.get(key.namespace, key.name)
        if quota is None:
            self._resting.pop(key, None)
        elif quota["metadata"]["resourceVersion"] != self._resting.get(key):
            self._recount_after_rest(key, quota)
        else:
            await self._write(quota, await self._listed(quota))
            self._resting.pop(key, None)

    async def _listed(self, quota: Object) -> Listing:
        found: dict[GroupResource, list[Object]] = {}
        for evaluator in self._evaluators.for_names(quota["spec"].get("hard") or {}):
            monitor = self._stored.counted.get(evaluator.resource)
            if monitor is not None and monitor.has_synced and not monitor.is_unserved:
                only_counted = type(evaluator) is Evaluator
                listed = await self.client.list(
                    monitor.ref, quota["metadata"]["namespace"], metadata_only=only_counted
                )
                found[evaluator.resource] = listed["items"]
        return lambda resource, _: found.get(resource)
