"""Keeps what the ResourceSlices of pools offer: capacities of devices, and counters that they share."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.quantity import ZERO, Quantity

Pool = tuple[str, str]  # driver, name


class Device(NamedTuple):
    """Identifies a device in the cluster."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"device {'/'.join(self)}"


def device_of(result: Mapping[str, Any]) -> Device | None:
    """Returns the device of an allocation result; None if it names none."""
    parts = (result.get("driver"), result.get("pool"), result.get("device"))
    return Device(*map(str, parts)) if all(parts) else None


class PoolDevices:
    """Follows the slices; only a pool's newest generation counts."""

    def __init__(self) -> None:
        self._slices: defaultdict[Pool, dict[str, Mapping[str, Any]]] = defaultdict(dict)

    def change(self, before: ObjectView | None, now: ObjectView | None) -> None:
        """Takes a slice that was written."""
        for entry in filter(None, (before,)):
            self._slices[_pool(entry)].pop(entry["metadata"]["name"], None)
        if now is not None:
            self._slices[_pool(now)][now["metadata"]["name"]] = now.get("spec") or {}

    def capacity(self, device: Device) -> dict[str, Quantity]:
        """Returns the capacity of a device; empty if it is not offered any more."""
        found = self._device(device)
        return {
            name: Quantity.of(value.get("value") if isinstance(value, Mapping) else value)
            for name, value in (found.get("capacity") or {}).items()
        }

    def overdrawn(self, pool: Pool, devices: Iterable[Device]) -> Iterator[tuple[str, Quantity, Quantity]]:
        """Yields name, use and limit of the counters that these devices of a pool consume too much of."""
        used: defaultdict[str, Quantity] = defaultdict(lambda: ZERO)
        for device in devices:
            for name, value in _counters(self._device(device).get("consumesCounters"), "counterSet"):
                used[name] = used[name] + value
        limits = dict(
            _counters(
                [each for spec in self._newest(pool) for each in spec.get("sharedCounters") or []], "name"
            )
        )
        for name in sorted(used):
            if name in limits and used[name] > limits[name]:
                yield name, used[name], limits[name]

    def _device(self, device: Device) -> Mapping[str, Any]:
        for spec in self._newest((device.driver, device.pool)):
            for each in spec.get("devices") or []:
                if each.get("name") == device.device:
                    return {**each, **(each.get("basic") or {})}
        return {}

    def _newest(self, pool: Pool) -> list[Mapping[str, Any]]:
        slices = [spec for _, spec in sorted((self._slices.get(pool) or {}).items())]
        newest = max((_generation(spec) for spec in slices), default=0)
        return [spec for spec in slices if _generation(spec) == newest]


def _pool(entry: ObjectView) -> Pool:
    spec = entry.get("spec") or {}
    return str(spec.get("driver") or ""), str((spec.get("pool") or {}).get("name") or "")


def _generation(spec: Mapping[str, Any]) -> int:
    return int((spec.get("pool") or {}).get("generation") or 0)


def _counters(sets: Any, key: str) -> Iterator[tuple[str, Quantity]]:
    """Yields `set/counter` and its value."""
    for each in sets or []:
        for name, counter in (each.get("counters") or {}).items():
            yield f"{each.get(key)}/{name}", Quantity.of(counter.get("value") or "0")
