"""The pools that a driver publishes: slices of devices, in the shape of v1, and how they are cut.

Source: k8s.io/dynamic-resource-allocation/resourceslice, DriverResources; limits of the API's validation.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.versions import Version
from kubeskew.kubelet.drivers.features import ServedSlices

_DEVICES, _ADVANCED_DEVICES = 128, 64
_COUNTER_SETS = 8  # of a slice, since 1.35
_SHARED_COUNTERS = 32  # of all counter sets of a slice, in 1.33 and 1.34
_CONSUMED_INLINE, _CONSUMED = 1024, 2048  # counters consumed in a slice: until 1.34, since 1.35


@dataclass(frozen=True, slots=True)
class Slice:
    """One ResourceSlice, without the fields that all slices of a pool share."""

    devices: tuple[Object, ...] = ()
    shared_counters: tuple[Object, ...] = ()
    per_device_node_selection: bool = False


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool. Without `node_name`, `node_selector` or `all_nodes` its devices select their nodes themselves.

    `generation` is the least generation. The last two fields are mistakes that a driver can make: `surplus`
    is added to the number of slices in each slice, and with `keeps_stale` slices of older generations stay.
    """

    slices: tuple[Slice, ...]
    node_name: str = ""
    node_selector: Object | None = None
    all_nodes: bool = False
    generation: int = 0
    surplus: int = 0
    keeps_stale: bool = False


@dataclass(frozen=True, slots=True)
class Unit:
    """Devices that share counters, such as a GPU and its partitions; `whole` are the devices for releases
    without counters."""

    devices: tuple[Object, ...]
    counter_sets: tuple[Object, ...] = ()
    whole: tuple[Object, ...] = ()


def slices_for(server: Version, units: Sequence[Unit], *, per_device: bool = False) -> tuple[Slice, ...]:
    """Cuts the units' devices into slices that a server of this version accepts; without devices there is one
    empty slice."""
    if not any(unit.counter_sets for unit in units):
        devices = [device for unit in units for device in unit.devices]
        return plain_slices(server, devices, per_device)
    served = ServedSlices.of(FeatureGates(server))
    if not served.counters:
        return plain_slices(server, [device for unit in units for device in unit.whole], per_device=False)
    if not served.counters_apart:
        return tuple(_inline(units, per_device)) or (Slice(),)
    return _separate(server, units, per_device)


def plain_slices(server: Version, devices: Sequence[Object], per_device: bool) -> tuple[Slice, ...]:
    """Without devices there is one empty slice."""
    chunks = _chunks(devices, _limit(server, devices), _CONSUMED)
    return tuple(Slice(tuple(chunk), (), per_device) for chunk in chunks) or (Slice(),)


def _separate(server: Version, units: Sequence[Unit], per_device: bool) -> tuple[Slice, ...]:
    """Slices of counter sets come first since 1.35, then slices of devices."""
    sets = [counter_set for unit in units for counter_set in unit.counter_sets]
    devices = [device for unit in units for device in unit.devices]
    counters = [
        Slice((), tuple(sets[at : at + _COUNTER_SETS]), per_device)
        for at in range(0, len(sets), _COUNTER_SETS)
    ]
    return (*counters, *plain_slices(server, devices, per_device))


def _inline(units: Sequence[Unit], per_device: bool) -> Iterator[Slice]:
    """Units stay whole in 1.33 and 1.34, because counters are only known within their slice."""
    gathered: list[Unit] = []
    for unit in units:
        wider = [*gathered, unit]
        if gathered and not _fits_inline(wider):
            yield _joined(gathered, per_device)
            wider = [unit]
        gathered = wider
    if gathered:
        yield _joined(gathered, per_device)


def _fits_inline(units: Sequence[Unit]) -> bool:
    devices = [device for unit in units for device in unit.devices]
    shared = sum(len(counter_set["counters"]) for unit in units for counter_set in unit.counter_sets)
    consumed = sum(map(_consumed, devices))
    return len(devices) <= _DEVICES and shared <= _SHARED_COUNTERS and consumed <= _CONSUMED_INLINE


def _joined(units: Sequence[Unit], per_device: bool) -> Slice:
    devices = tuple(device for unit in units for device in unit.devices)
    return Slice(
        devices, tuple(counter_set for unit in units for counter_set in unit.counter_sets), per_device
    )


def _chunks(devices: Sequence[Object], limit: int, consumed_limit: int) -> Iterator[list[Object]]:
    chunk: list[Object] = []
    consumed = 0
    for device in devices:
        needed = _consumed(device)
        if chunk and (len(chunk) == limit or consumed + needed > consumed_limit):
            yield chunk
            chunk, consumed = [], 0
        chunk.append(device)
        consumed += needed
    if chunk:
        yield chunk


def _limit(server: Version, devices: Iterable[Object]) -> int:
    advanced = any(device.get("taints") or device.get("consumesCounters") for device in devices)
    fewer = ServedSlices.of(FeatureGates(server)).fewer_advanced_devices
    return _ADVANCED_DEVICES if advanced and fewer else _DEVICES


def _consumed(device: Mapping[str, Any]) -> int:
    return sum(len(counter["counters"]) for counter in device.get("consumesCounters") or [])


def pre_partitioned(server: Version, pool: Pool, used: Collection[str]) -> Pool:
    """Keeps the devices that a driver advertises which makes no partitions: those of `used`, and of counters
    that none of them uses the device that is listed last, which is the largest.

    None of them shares anything, so that there are no counters.
    """
    devices = [device for piece in pool.slices for device in piece.devices]
    largest: dict[tuple[str, ...], str] = {}
    taken: set[str] = set()
    for device in devices:
        sets = _sets(device)
        largest[sets] = device["name"]
        if device["name"] in used:
            taken |= {*sets}
    kept = [
        {field: value for field, value in device.items() if field != "consumesCounters"}
        for device in devices
        if device["name"] in used
        or (largest[_sets(device)] == device["name"] and not taken & {*_sets(device)})
    ]
    per_device = any(piece.per_device_node_selection for piece in pool.slices)
    return replace(pool, slices=plain_slices(server, kept, per_device))


def _sets(device: Mapping[str, Any]) -> tuple[str, ...]:
    """Names the counter sets that a device consumes from; other devices have a key of their own."""
    consumed = device.get("consumesCounters") or []
    return tuple(each["counterSet"] for each in consumed) or ("", device["name"])
