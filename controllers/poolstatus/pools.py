"""Counts the devices in the pools of a driver, and those taken, over slices, claims and rules.

Behaviour of k8s.io/kubernetes/pkg/controller/resourcepoolstatusrequest, 1.36 and 1.37.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.controllers.framework.device_pools import Pool, pool_of, results, selects

_UNUSABLE = ("NoSchedule", "NoExecute")
MAX_ERROR_BYTES = 256


@dataclass(slots=True)
class AllocatedDevices:
    """The devices of a pool that claims have; administrative access takes nothing."""

    devices: set[str] = field(default_factory=set)
    entries: int = 0  # of allocations, administrative access included
    capacity: dict[str, Quantity] = field(default_factory=dict)


@dataclass(slots=True)
class PoolView:
    """The slices of a pool's newest generation."""

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
        """Returns what is missing, empty if nothing is."""
        wanted = self.slices[0]["spec"]["pool"]["resourceSliceCount"]
        if len(self.slices) >= wanted:
            return ""
        return (
            f"PoolIncomplete: pool {self.pool.driver}/{self.pool.name} is incomplete: observed "
            f"{len(self.slices)}/{wanted} slices at generation {self.generation}"
        )

    def status(self, rules: Sequence[Object], *, counts_devices: bool) -> Object:
        """Returns the pool's entry in a request's status; `counts_devices` as PoolStatusFeatures has it."""
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
        """Returns whether a taint keeps pods from the device: the driver's, or that of a rule."""
        if any(taint.get("effect") in _UNUSABLE for taint in device.get("taints") or ()):
            return True
        return any(
            rule["spec"]["taint"].get("effect") in _UNUSABLE and selects(rule, self.pool, device["name"])
            for rule in rules
        )


def pool_views(slices: Iterable[Object], claims: Iterable[Object], driver: str, pool: str) -> list[PoolView]:
    """Returns the pools of a driver (or the one that is named), by name."""
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
