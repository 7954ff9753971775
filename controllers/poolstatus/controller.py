"""The controller of pool status requests: counts the devices in the pools of a driver and those taken, over
slices, claims and rules, and answers each request once; with its metrics. It deletes answered requests
after an hour, others after a day. Pools are summarized as 1.37 does: partitions by type, and devices that
several claims share.

Sources: the metrics package of k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest, 1.36 and 1.37;
k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest, 1.36 and 1.37;
k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest (views.go), 1.37; the attribute by which types are
grouped, of the slice or the request's default, is a guess about 1.37.
"""

import copy
import logging
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram

from kubeskew.apimachinery.client.refs import POOL_STATUS_REQUESTS, dra_refs, taint_rules_ref
from kubeskew.apimachinery.clock import parse_timestamp
from kubeskew.apimachinery.conditions import new_condition
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.controllers.framework.base import Controller, ControllerContext, Key, SyncError
from kubeskew.controllers.framework.device_pools import Pool, pool_of, results, selects
from kubeskew.controllers.poolstatus.features import PoolStatusFeatures

_PREFIX = "resourcepoolstatusrequest_controller_"
_BUCKETS = tuple(0.001 * 2**power for power in range(15))
_UNUSABLE = ("NoSchedule", "NoExecute")
MAX_ERROR_BYTES = 256
_MOST = 32
_ZERO = Quantity.parse("0")
_Counters = dict[tuple[str, str], Quantity]
log = logging.getLogger(__name__)

_MAX_RETRIES = 5
_CLEANUP_SECONDS = 600.0
_ANSWERED_SECONDS, _UNANSWERED_SECONDS = 3600.0, 24 * 3600.0
_DEFAULT_LIMIT = 100


class RequestMetrics:
    """Counts requests by driver. Another controller may register only after `close`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        driver = ("driver_name",)
        self._processed = Counter(f"{_PREFIX}requests_processed", "Requests.", driver, registry=registry)
        self._failed = Counter(f"{_PREFIX}request_processing_errors", "Failures.", driver, registry=registry)
        name = f"{_PREFIX}request_processing_duration_seconds"
        self._took = Histogram(name, "Seconds per request.", driver, buckets=_BUCKETS, registry=registry)

    def processed(self, driver: str, seconds: float) -> None:
        self._processed.labels(driver).inc()
        self._took.labels(driver).observe(seconds)

    def failed(self, driver: str) -> None:
        self._failed.labels(driver).inc()

    def close(self) -> None:
        for metric in (self._processed, self._failed, self._took):
            self._registry.unregister(metric)


@dataclass(slots=True)
class AllocatedDevices:
    """Administrative access takes no devices."""

    devices: set[str] = field(default_factory=set)
    entries: int = 0  # of allocations, administrative access included
    capacity: dict[str, Quantity] = field(default_factory=dict)


@dataclass(slots=True)
class PoolView:
    """Only slices of the pool's newest generation are in the view."""

    pool: Pool
    slices: list[Object]
    taken: AllocatedDevices

    @property
    def generation(self) -> int:
        return int(self.slices[0]["spec"]["pool"].get("generation") or 0)

    @property
    def devices(self) -> list[Object]:
        return [device for slice_ in self.slices for device in slice_["spec"].get("devices") or ()]

    def incomplete(self) -> str:
        """Empty if no slice is missing."""
        wanted = self.slices[0]["spec"]["pool"]["resourceSliceCount"]
        if len(self.slices) >= wanted:
            return ""
        return (
            f"PoolIncomplete: pool {self.pool.driver}/{self.pool.name} is incomplete: observed "
            f"{len(self.slices)}/{wanted} slices at generation {self.generation}"
        )

    def status(self, rules: Sequence[Object], *, counts_devices: bool) -> Object:
        nodes = sorted({slice_["spec"].get("nodeName") or "" for slice_ in self.slices})
        status: Object = {
            "driver": self.pool.driver,
            "poolName": self.pool.name,
            "generation": self.generation,
        }
        if nodes[0] and len(nodes) == 1:
            status["nodeName"] = nodes[0]
        missing = self.incomplete()
        if missing:
            return {**status, "validationError": missing[:MAX_ERROR_BYTES]}
        total = len(self.devices)
        taken = len(self.taken.devices) if counts_devices else self.taken.entries
        unusable = sum(self._is_unusable(device, rules) for device in self.devices) if counts_devices else 0
        return {
            **status,
            "resourceSliceCount": len(self.slices),
            "totalDevices": total,
            "allocatedDevices": taken,
            "availableDevices": max(0, total - taken - unusable),
            "unavailableDevices": unusable,
        }

    def _is_unusable(self, device: Object, rules: Sequence[Object]) -> bool:
        if any(taint.get("effect") in _UNUSABLE for taint in device.get("taints") or ()):
            return True
        return any(
            rule["spec"]["taint"].get("effect") in _UNUSABLE and selects(rule, self.pool, device["name"])
            for rule in rules
        )


def pool_views(slices: Iterable[Object], claims: Iterable[Object], driver: str, pool: str) -> list[PoolView]:
    """`pool` restricts the result to the pool of that name, unless empty; the order is by name."""
    found: dict[Pool, list[Object]] = {}
    for one in slices:
        place = pool_of(one)
        if place.driver == driver and pool in ("", place.name):
            found.setdefault(place, []).append(one)
    taken = _taken(claims)
    views = []
    for place, listed in sorted(found.items()):
        newest = max(slice_["spec"]["pool"].get("generation") or 0 for slice_ in listed)
        current = [slice_ for slice_ in listed if (slice_["spec"]["pool"].get("generation") or 0) == newest]
        current.sort(key=lambda one: str(one["metadata"]["name"]))
        views.append(PoolView(place, current, taken.get(place, AllocatedDevices())))
    return views


def _taken(claims: Iterable[Object]) -> dict[Pool, AllocatedDevices]:
    found: dict[Pool, AllocatedDevices] = {}
    for claim in claims:
        for result in results(claim):
            taken = found.setdefault(pool_of(result), AllocatedDevices())
            taken.entries += 1
            if result.get("adminAccess"):
                continue
            taken.devices.add(result["device"])
            for name, amount in (result.get("consumedCapacity") or {}).items():
                consumed = Quantity.of(amount)
                before = taken.capacity.get(name)
                taken.capacity[name] = consumed if before is None else before + consumed
    return found


class SummaryError(Exception):
    """Raised for pools that cannot be summarized; the text is upstream's."""


def partition_summary(view: PoolView, default: str) -> list[Object]:
    """Counts devices of each type, and how many more would fit. Raises SummaryError."""
    types: dict[tuple[str, str], list[Object]] = {}
    for slice_ in view.slices:
        attribute = slice_["spec"].get("partitionTypeAttribute") or default
        for device in slice_["spec"].get("devices") or ():
            if attribute and device.get("consumesCounters"):
                place = attribute, _type(view, device, attribute)
                types.setdefault(place, []).append(device)
    if len(types) > _MOST:
        raise SummaryError(
            f"PartitionSummaryOverCap: pool {_name(view)} has {len(types)} partition types, exceeding the "
            f"maximum of {_MOST}"
        )
    left = _left(view)
    return [_partitions(view, place, types[place], left) for place in sorted(types)]


def _name(view: PoolView) -> str:
    return f"{view.pool.driver}/{view.pool.name}"


def _type(view: PoolView, device: Object, attribute: str) -> str:
    for name, value in (device.get("attributes") or {}).items():
        full = name if "/" in name else f"{view.pool.driver}/{name}"
        if full == attribute and value.get("string") is not None:
            return str(value["string"])
    raise SummaryError(
        f'PartitionTypeMissing: device "{device["name"]}" in pool {_name(view)} does not carry partition '
        f'type attribute "{attribute}"'
    )


def _partitions(view: PoolView, place: tuple[str, str], devices: list[Object], left: _Counters) -> Object:
    costs = [_cost(device) for device in devices]
    if any(cost != costs[0] for cost in costs):
        raise SummaryError(
            f'PartitionCostMismatch: devices of partition type "{place[1]}" in pool {_name(view)} consume '
            "different counters"
        )
    free, fitting = copy.copy(left), 0
    for device, cost in zip(devices, costs, strict=True):
        if device["name"] in view.taken.devices:
            continue
        if all(counter in free and free[counter] >= amount for counter, amount in cost.items()):
            fitting += 1
            _deduct(free, cost)
    return {"attribute": place[0], "type": place[1], "total": len(devices), "allocatable": fitting}


def _cost(device: Object) -> _Counters:
    return {
        (consumed["counterSet"], name): Quantity.of(counter["value"])
        for consumed in device.get("consumesCounters") or ()
        for name, counter in (consumed.get("counters") or {}).items()
    }


def _deduct(free: _Counters, cost: Mapping[tuple[str, str], Quantity]) -> None:
    for counter, amount in cost.items():
        if counter in free:
            free[counter] -= amount


def _left(view: PoolView) -> _Counters:
    """Devices in use count once, even with several claims."""
    left: _Counters = {
        (counter_set["name"], name): Quantity.of(counter["value"])
        for slice_ in view.slices
        for counter_set in slice_["spec"].get("sharedCounters") or ()
        for name, counter in (counter_set.get("counters") or {}).items()
    }
    for device in view.devices:
        if device["name"] in view.taken.devices:
            _deduct(left, _cost(device))
    return left


def shareable_summary(view: PoolView) -> Object | None:
    """Only devices that several claims may have count; None without any.

    Raises SummaryError.
    """
    shared = [device for device in view.devices if device.get("allowMultipleAllocations")]
    if not shared:
        return None
    total: dict[str, Quantity] = {}
    for device in shared:
        for name, capacity in (device.get("capacity") or {}).items():
            total[name] = total.get(name, _ZERO) + Quantity.of(capacity["value"])
    if len(total) > _MOST:
        raise SummaryError(
            f"ShareableSummaryOverCap: pool {_name(view)} has {len(total)} shareable capacity keys, "
            f"exceeding the maximum of {_MOST}"
        )
    used = sum(device["name"] in view.taken.devices for device in shared)
    return {
        "fullyAvailableDevices": len(shared) - used,
        "partiallyAvailableDevices": used,
        "capacity": [
            _capacity(name, total[name], view.taken.capacity.get(name, _ZERO)) for name in sorted(total)
        ],
    }


def _capacity(name: str, total: Quantity, consumed: Quantity) -> Object:
    available = total - consumed
    return {
        "name": name,
        "total": total.canonical(),
        "consumed": consumed.canonical(),
        "available": (_ZERO if available.sign() < 0 else available).canonical(),
    }


class PoolStatusController(Controller):
    name = "resourcepoolstatusrequest-controller"
    component = "resourcepoolstatusrequest-controller"
    queue_name = None  # it is made without a name
    default_workers = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        version = context.environment.version
        self._features = features = PoolStatusFeatures.of(context.environment.gates)
        refs = dra_refs(version)
        self._requests = context.informer(POOL_STATUS_REQUESTS)
        self._slices, self._claims = context.informer(refs.slices), context.informer(refs.claims)
        rules_ref = taint_rules_ref(version)
        self._rules = context.informer(rules_ref) if features.device_taint_rules else None
        self._metrics = RequestMetrics(context.registry)
        self._requests.add_handler(self._requested, lambda _, new: self._requested(new))

    def _requested(self, request: Object) -> None:
        if request.get("status") is None:
            self.enqueue(request)

    def loops(self) -> list[Coroutine[Any, Any, None]]:
        return [self._clean_up()]

    async def stop(self) -> None:
        self._metrics.close()
        await super().stop()

    async def sync(self, key: Key) -> None:
        """Waits up to _MAX_RETRIES times for a pool whose driver is still publishing."""
        request = self._requests.get(*key)
        if request is None or request.get("status") is not None:
            return
        begun, driver = self.clock.monotonic(), request["spec"]["driver"]
        spec = request["spec"]
        views = pool_views(self._slices.list(), self._claims.list(), driver, spec.get("poolName") or "")
        if any(view.incomplete() for view in views[: spec.get("limit") or _DEFAULT_LIMIT]):
            if self._tries_again(key):
                raise SyncError("incomplete pools detected, requeueing")
            return
        try:
            await self.client.update(
                POOL_STATUS_REQUESTS, {**request, "status": self._status(spec, views)}, "status"
            )
        except StatusError:
            self._metrics.failed(driver)
            if self._tries_again(key):
                raise
        finally:
            self._metrics.processed(driver, self.clock.monotonic() - begun)

    def _tries_again(self, key: Key) -> bool:
        if self.queue.requeues(key) < _MAX_RETRIES:
            return True
        log.info("%s: dropping %s after %d tries", self.name, key, _MAX_RETRIES)
        return False

    def _status(self, spec: Object, views: list[PoolView]) -> Object:
        rules = self._rules.list() if self._rules is not None else ()
        default = spec.get("defaultPartitionTypeAttribute") or ""
        limit = spec.get("limit") or _DEFAULT_LIMIT
        by_device = self._features.counts_devices
        pools = [
            {**view.status(rules, counts_devices=by_device), **self._summaries(view, default)}
            for view in views[:limit]
        ]
        flawed = sum("validationError" in pool for pool in pools)
        message = f"Calculated status for {len(pools)} pools" + (f" ({flawed} incomplete)" if flawed else "")
        condition = new_condition("Complete", "True", "CalculationComplete", message, self.clock.now())
        status: Object = {"poolCount": len(views), "conditions": [condition]}
        return {**status, "pools": pools} if pools else status

    def _summaries(self, view: PoolView, default: str) -> Object:
        if not self._features.summaries:
            return {}
        found: Object = {}
        try:
            partitions, shared = partition_summary(view, default), shareable_summary(view)
        except SummaryError as error:
            return {"validationError": str(error)[:MAX_ERROR_BYTES]}
        if partitions:
            found["partitionSummary"] = partitions
        if shared is not None:
            found["shareableSummary"] = shared
        return found

    async def _clean_up(self) -> None:
        while True:
            for request in self._requests.list():
                if self._is_old(request):
                    await self._remove(request)
            await self.clock.sleep(_CLEANUP_SECONDS)

    def _is_old(self, request: Object) -> bool:
        created = request["metadata"].get("creationTimestamp")
        if request.get("status") is None:
            return self._is_past(created, _UNANSWERED_SECONDS)
        conditions = request["status"].get("conditions") or ()
        ended = [condition for condition in conditions if condition["type"] in ("Complete", "Failed")]
        return self._is_past(ended[0]["lastTransitionTime"] if ended else created, _ANSWERED_SECONDS)

    def _is_past(self, time: str | None, seconds: float) -> bool:
        now: datetime = self.clock.now()
        return bool(time) and (now - parse_timestamp(time or "")).total_seconds() > seconds

    async def _remove(self, request: Object) -> None:
        metadata = request["metadata"]
        try:
            await self.client.delete(
                POOL_STATUS_REQUESTS, metadata["name"], preconditions={"uid": metadata["uid"]}
            )
        except StatusError as error:
            if error.code != 404:
                log.info("%s: cannot delete %s: %s", self.name, metadata["name"], error)
