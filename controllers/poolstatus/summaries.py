"""Summarizes pools as 1.37 does: partitions by type, and devices that several claims share.

Behaviour of k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest (views.go), 1.37; that each type
stands under the attribute of its slice, or the request's default, is from memory.
"""

import copy
from collections.abc import Mapping

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.controllers.poolstatus.pools import PoolView

_MOST = 32
_ZERO = Quantity.parse("0")
_Counters = dict[tuple[str, str], Quantity]


class SummaryError(Exception):
    """A pool cannot be summarized; the text is upstream's."""


def partition_summary(view: PoolView, default: str) -> list[Object]:
    """Returns how many devices of each type there are, and how many more would fit. Raises SummaryError."""
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
    """Returns the pool's counters minus those of the devices in use, each once."""
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
    """Returns the capacity of devices that several claims may have; None without such.

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
