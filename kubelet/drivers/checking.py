"""Finds errors in a pool that no API server can see, before it is published, as KEP-4815 has it.

Source: k8s.io/dynamic-resource-allocation/resourceslice/validation.go, 1.35 to 1.37.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.pools import Pool

_FIRST_TO_REFUSE_OWN_DOMAIN = 37


class PoolError(ValueError):
    """A pool that must not be published."""


def check_pool(library: Version, driver: str, name: str, pool: Pool) -> None:
    """Raises PoolError with the first error: a reference to nothing, or a duplicate."""
    counter_sets: dict[str, Object] = {}
    for counter_set in (counter_set for piece in pool.slices for counter_set in piece.shared_counters):
        if counter_set["name"] in counter_sets:
            raise PoolError(f'found duplicate counter set "{counter_set["name"]}" in pool "{name}"')
        counter_sets[counter_set["name"]] = counter_set
    devices: set[str] = set()
    for device in (device for piece in pool.slices for device in piece.devices):
        if device["name"] in devices:
            raise PoolError(f'found duplicate device "{device["name"]}" in pool "{name}"')
        devices.add(device["name"])
        if library.minor >= _FIRST_TO_REFUSE_OWN_DOMAIN:
            _check_names(driver, name, device)
        _check_consumption(device, counter_sets)


def _check_names(driver: str, pool: str, device: Object) -> None:
    for what, field in (("attribute", "attributes"), ("capacity", "capacity")):
        for name in device.get(field) or {}:
            domain, separator, local = name.partition("/")
            if separator and domain == driver:
                raise PoolError(
                    f'pool "{pool}": device "{device["name"]}": {what} "{name}": '
                    f'use unqualified "{local}", the driver name is added implicitly'
                )


def _check_consumption(device: Object, counter_sets: dict[str, Object]) -> None:
    for consumption in device.get("consumesCounters") or []:
        name = consumption["counterSet"]
        if name not in counter_sets:
            raise PoolError(f'counter set "{name}" referenced by device "{device["name"]}" not found')
        for counter in consumption["counters"]:
            if counter not in counter_sets[name]["counters"]:
                raise PoolError(
                    f'counter "{counter}" referenced by device "{device["name"]}" '
                    f'not found in counter set "{name}"'
                )
