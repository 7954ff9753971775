"""Pairs stored slices with desired ones, finds differences, and names new slices. Pure functions.

Depends on the library's release (k8s.io/dynamic-resource-allocation/resourceslice,
resourceslicecontroller.go): until 1.31 slices match by the names of their devices; since 1.32 a single old
one also matches a single new one; since 1.36 the name begins with the place in the pool, and only the place
counts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.kubelet.drivers.pools import Pool, Slice

_INDEX_DIGITS = 5
_FIRST_WITH_SINGLE = 32
_FIRST_WITH_INDEX = 36


@dataclass(frozen=True, slots=True)
class MatchedSlices:
    """Stored slices by the index of the desired one that they match; the others are obsolete."""

    current: Mapping[int, Object]
    obsolete: Sequence[Object]


@dataclass(frozen=True, slots=True)
class Library:
    """The peculiarities of one release's library."""

    indexed_names: bool
    single_matches: bool
    keeps_last_time_alone: bool  # of the taints that a device has had before
    keeps_written: bool  # takes what it wrote for present, though the watch has shown that it is gone
    looks_once: bool  # when what it made counts no longer; an earlier look takes the place of that one

    @classmethod
    def of(cls, gates: FeatureGates) -> "Library":
        minor = gates.version.minor
        return cls(
            indexed_names=minor >= _FIRST_WITH_INDEX,
            single_matches=minor >= _FIRST_WITH_SINGLE,
            keeps_last_time_alone=gates.bugs.present("k8s-141107"),
            keeps_written=gates.bugs.present("k8s-140063"),
            looks_once=gates.bugs.present("k8s-132683"),
        )

    def generate_name(self, index: int, count: int, driver: str, owner: str) -> str:
        """Returns `00000-DRIVER-OWNER-` or, in older releases, `OWNER-DRIVER-`; the owner may be empty."""
        parts = [driver, owner] if self.indexed_names else [owner, driver]
        prefix = [f"{index:0{_digits(count)}x}"] if self.indexed_names else []
        return "".join(f"{part}-" for part in [*prefix, *parts] if part)

    def match(self, stored: Iterable[Object], wanted: Sequence[Slice]) -> MatchedSlices:
        """`stored` are of the pool's newest generation."""
        slices = [*stored]
        if self.single_matches and not self.indexed_names and len(slices) == len(wanted) == 1:
            return MatchedSlices({0: slices[0]}, ())
        current: dict[int, Object] = {}
        obsolete = []
        for slice_ in slices:
            index = self._place(slice_, wanted, current)
            if index is None:
                obsolete.append(slice_)
            else:
                current[index] = slice_
        return MatchedSlices(current, obsolete)

    def _place(self, stored: Object, wanted: Sequence[Slice], taken: Mapping[int, Object]) -> int | None:
        free = [index for index in range(len(wanted)) if index not in taken]
        if self.indexed_names:
            index = _decoded_index(stored["metadata"]["name"], _digits(len(wanted)))
            return index if index in free else None
        names = _names(stored["spec"].get("devices") or ())
        return next((index for index in free if _names(wanted[index].devices) == names), None)


def _digits(count: int) -> int:
    return max(_INDEX_DIGITS, len(f"{max(count - 1, 0):x}"))


def _decoded_index(name: str, digits: int) -> int | None:
    prefix, separator, _ = name.partition("-")
    if not separator or len(prefix) != digits:
        return None
    try:
        return int(prefix, 16)
    except ValueError:
        return None


def _names(devices: Iterable[Object]) -> list[str]:
    return sorted(device["name"] for device in devices)


def same_content(stored: Object, pool: Pool, wanted: Slice) -> bool:
    """Returns whether a stored slice's spec is as desired, apart from pool and driver."""
    spec = stored["spec"]
    return (
        (spec.get("nodeSelector") or None) == pool.node_selector
        and bool(spec.get("allNodes")) == pool.all_nodes
        and bool(spec.get("perDeviceNodeSelection")) == wanted.per_device_node_selection
        and comparable(spec.get("sharedCounters")) == comparable(wanted.shared_counters)
        and comparable(spec.get("devices")) == comparable(wanted.devices)
    )


def comparable(value: Any, key: str = "") -> Any:
    """Returns equal values for equal meaning: quantities by value, empty fields as absent, taints without
    times."""
    if isinstance(value, Mapping):
        parts = {name: comparable(part, name) for name, part in value.items() if name != "timeAdded"}
        if key in {"capacity", "counters"}:
            return {name: _amount(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part not in (None, {}, [])}
    if isinstance(value, (list, tuple)):
        return [comparable(part) for part in value]
    return [] if value is None and not key else value


def _amount(entry: Any) -> Any:
    """Returns a capacity or counter, its value as a number."""
    if not isinstance(entry, Mapping) or "value" not in entry:
        return entry
    return {
        **comparable({k: v for k, v in entry.items() if k != "value"}),
        "value": Quantity.of(entry["value"]),
    }


def with_taint_times(stored: Sequence[Object], wanted: Sequence[Object], *, last_alone: bool) -> list[Object]:
    """Returns the desired devices; a taint that is stored already keeps its time (`last_alone`: of several
    of a device the last one does)."""
    times = {
        (device["name"], taint["key"], taint.get("value", ""), taint["effect"]): taint["timeAdded"]
        for device in stored
        for taint in device.get("taints") or []
        if "timeAdded" in taint
    }
    return [
        {**device, "taints": _timed(device, times, last_alone=last_alone)} if device.get("taints") else device
        for device in wanted
    ]


def _timed(
    device: Object, times: Mapping[tuple[str, str, str, str], str], *, last_alone: bool
) -> list[Object]:
    taints: list[Object] = [*device["taints"]]
    for index, taint in enumerate(device["taints"]):
        known = times.get((device["name"], taint["key"], taint.get("value", ""), taint["effect"]))
        if known is not None and "timeAdded" not in taint:
            if last_alone:  # upstream begins anew with the desired device for each
                taints = [*device["taints"]]
            taints[index] = {**taint, "timeAdded": known}
    return taints


def dropped_features(wanted: Slice, stored: Object) -> list[str]:
    """Returns the features that the server does not seem to have, by the fields missing in what it stored."""
    spec = stored["spec"]
    pairs = [*zip(wanted.devices, spec.get("devices") or (), strict=False)]

    def lacks(*fields: str) -> bool:
        return any(len(a.get(f) or ()) != len(b.get(f) or ()) for a, b in pairs for f in fields)

    fewer_counters = len(wanted.shared_counters) > len(spec.get("sharedCounters") or ())
    lost_nodes = wanted.per_device_node_selection and not spec.get("perDeviceNodeSelection")
    shared = any("allowMultipleAllocations" in a and "allowMultipleAllocations" not in b for a, b in pairs)
    found = {
        "DRADeviceTaints": lacks("taints"),
        "DRAPartitionableDevices": lost_nodes or fewer_counters or lacks("consumesCounters"),
        "DRADeviceBindingConditions": lacks("bindingConditions", "bindingFailureConditions"),
        "DRAConsumableCapacity": shared,
    }
    return [feature for feature, lacking in found.items() if lacking] or ["unknown"]
