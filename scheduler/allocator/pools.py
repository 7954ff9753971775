"""Pools of devices as one node sees them (which slices count, whether they are complete and valid, in which
order they are searched), and the index of all slices of the cluster.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/pools_*.go, 1.31 … 1.37.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from kubeskew.apimachinery.objects import ObjectView
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.slices import Device, NodeView, PoolID, Slice, on_node

Counters = Mapping[str, Mapping[str, int]]  # counter set → counter → amount in nanos


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool as one node sees it: the slices of the newest generation that are for the node."""

    id: PoolID
    devices: Sequence[Device] = ()
    elsewhere: Sequence[Device] = ()  # devices for other nodes; they use its counters, too
    counters: Counters = field(default_factory=dict)
    incomplete: str = ""  # why it is incomplete
    invalid: str = ""  # why it is invalid
    obsolete: bool = False  # a newer generation exists only for other nodes: the pool counts as absent


class SearchPosition(NamedTuple):
    """The place where a search for one device ended; it is valid until a device becomes free."""

    releases: int  # AllocatedState.releases at that time
    position: int  # place of the candidate; none before it is available
    device: Device | None  # None: there was no candidate


@dataclass(frozen=True, slots=True)
class NodePools:
    """All pools with devices for a node, in the order in which they are searched."""

    labels: Mapping[str, str]  # labels of the node when this was computed
    pools: Sequence[Pool]
    candidates: Sequence[Device]  # of the pools that can be used
    any_invalid: bool
    first_invalid: tuple[int, Pool] | None  # the place of an invalid pool among the candidates
    by_id: Mapping[PoolID, Pool]
    starts: dict[object, SearchPosition] = field(default_factory=dict)


def node_pools(pools: Sequence[Sequence[Slice]], node: NodeView, features: AllocatorFeatures) -> NodePools:
    """`pools` has each pool's slices of all generations."""
    seen = [
        pool for slices in pools if (pool := view(slices, node, features)) is not None and not pool.obsolete
    ]
    seen.sort(key=lambda pool: (features.binding_pools_last and _has_binding_conditions(pool), pool.id))
    usable = [pool for pool in seen if not pool.invalid and not (features.whole_pools and pool.incomplete)]
    return NodePools(
        node.labels,
        seen,
        [device for pool in usable for device in pool.devices],
        any(pool.invalid for pool in seen),
        _first_invalid(seen),
        {pool.id: pool for pool in seen},
    )


def _first_invalid(seen: Iterable[Pool]) -> tuple[int, Pool] | None:
    before = 0
    for pool in seen:
        if pool.invalid:
            return before, pool
        before += len(pool.devices)
    return None


def view(slices: Sequence[Slice], node: NodeView, features: AllocatorFeatures) -> Pool | None:
    """None means that no slice of the pool is for the node."""
    mine = [slice_ for slice_ in slices if slice_.is_for(node, features)]
    if not mine:
        return None
    newest = max(slice_.generation for slice_ in mine)
    mine = [slice_ for slice_ in mine if slice_.generation == newest]
    wanted = mine[0].pool_size
    others: list[Slice] = []
    missing = len(mine) != wanted
    if missing and not features.overlooks_other_slices:
        if any(slice_.generation > newest for slice_ in slices):
            return Pool(mine[0].pool, obsolete=True)
        everything = [slice_ for slice_ in slices if slice_.generation == newest]
        names = {slice_.name for slice_ in mine}
        others = [slice_ for slice_ in everything if slice_.name not in names]
        missing = len(everything) != wanted
        if missing:
            return Pool(mine[0].pool, incomplete=f"{len(everything)} of {wanted} slices are there")
    if features.sorted_slices:
        mine.sort(key=lambda each: each.name)
    incomplete = f"{len(mine)} of {wanted} slices are there" if missing else ""
    return _judged(mine, others, incomplete, features)


def _judged(
    mine: Sequence[Slice], others: Sequence[Slice], incomplete: str, features: AllocatorFeatures
) -> Pool:
    """Checks the pool; with `whole_pools` an invalid one keeps no devices."""
    identity, partitions = mine[0].pool, features.gates.partitionable_devices and features.pool_counters
    giving = [slice_ for slice_ in mine if not (partitions and slice_.counter_sets)]
    devices = [device for slice_ in giving for device in slice_.devices]
    invalid = _duplicate(devices) if features.duplicate_devices_invalid else ""
    counters: Counters = {}
    if partitions and not invalid:
        sets = list(chain.from_iterable(slice_.counter_sets for slice_ in (*mine, *others)))
        counters = dict(sets)
        invalid = _duplicate_set(sets) or _unknown_counter(counters, [*mine, *others])
    if invalid and features.whole_pools:
        return Pool(identity, invalid=invalid)
    elsewhere = [device for slice_ in others for device in slice_.devices] if partitions else ()
    return Pool(identity, devices, elsewhere, counters, incomplete, invalid)


def _duplicate(devices: Iterable[Device]) -> str:
    names: set[str] = set()
    for device in devices:
        if device.id.device in names:
            return f"duplicate device name {device.id.device}"
        names.add(device.id.device)
    return ""


def _duplicate_set(sets: Iterable[tuple[str, object]]) -> str:
    names: set[str] = set()
    for name, _ in sets:
        if name in names:
            return f"duplicate counter set name {name}"
        names.add(name)
    return ""


def _unknown_counter(counters: Counters, slices: Iterable[Slice]) -> str:
    for device in chain.from_iterable(slice_.devices for slice_ in slices):
        for name, consumed in device.counters:
            if name not in counters:
                return f"counter set {name} not found"
            for counter in consumed:
                if counter not in counters[name]:
                    return f"counter {counter} not found in counter set {name}"
    return ""


def _has_binding_conditions(pool: Pool) -> bool:
    return any(device.spec.get("bindingConditions") is not None for device in pool.devices)


class SliceIndex:
    def __init__(self, features: AllocatorFeatures) -> None:
        self._features = features
        self._pools: dict[PoolID, dict[str, Slice]] = {}
        self._local: dict[str, dict[PoolID, int]] = {}  # node → pools with slices for it alone
        self._shared: dict[PoolID, int] = {}  # pools with slices for several nodes
        self._views: dict[str, NodePools] = {}
        self.revision = 0  # counts changes of slices

    @classmethod
    def of(cls, features: AllocatorFeatures, slices: Iterable[ObjectView]) -> "SliceIndex":
        """Indexes a list of slices that will not change; names may repeat."""
        index = cls(features)
        for serial, slice_ in enumerate(slices):
            index._add(slice_, f"{slice_['metadata']['name']}\0{serial}")
        return index

    def copy(self) -> "SliceIndex":
        copy = SliceIndex(self._features)
        copy._pools = {pool: {**slices} for pool, slices in self._pools.items()}
        copy._local = {node: {**pools} for node, pools in self._local.items()}
        copy._shared = {**self._shared}
        copy.revision = self.revision
        return copy

    def set_slice(self, obj: ObjectView) -> None:
        self.remove_slice(obj)
        self._add(obj, obj["metadata"]["name"])

    def _add(self, obj: ObjectView, key: str) -> None:
        made = Slice(obj["metadata"]["name"], obj["spec"], self._features)
        self._pools.setdefault(made.pool, {})[key] = made
        self._place(made, 1)

    def remove_slice(self, obj: ObjectView) -> None:
        """A slice's name and pool never change."""
        spec = obj["spec"]
        slices = self._pools.get(PoolID(spec["driver"], spec["pool"]["name"]), {})
        known = slices.pop(obj["metadata"]["name"], None)
        if known is not None:
            self._place(known, -1)
            if not slices:
                del self._pools[known.pool]

    def _place(self, placed: Slice, change: int) -> None:
        self.revision += 1
        node = placed.spec.get("nodeName") or ""
        local = bool(node) and not placed.everywhere
        counts = self._local.setdefault(node, {}) if local else self._shared
        counts[placed.pool] = counts.get(placed.pool, 0) + change
        if not counts[placed.pool]:
            del counts[placed.pool]
        others = len(self._pools.get(placed.pool, ())) - (change > 0)
        if not local or others:
            self._views.clear()  # a pool may span nodes
        else:
            self._views.pop(node, None)

    def pools(self, node: NodeView) -> NodePools:
        """A node's pools are computed again only after a change that may concern it."""
        known = self._views.get(node.name)
        if known is not None and known.labels is node.labels:
            return known
        identities = {**self._local.get(node.name, {}), **self._shared}
        slices = [list(self._pools[identity].values()) for identity in identities]
        found = self._views[node.name] = node_pools(slices, node, self._features)
        return found

    def all_pools(self, node: NodeView) -> Iterator[tuple[PoolID, Pool | None]]:
        """Pairs every pool of the cluster, by driver and name, with the node's view of it; None if it sees
        nothing."""
        for identity in sorted(self._pools):
            yield identity, view(list(self._pools[identity].values()), node, self._features)

    def devices(self, node: NodeView) -> Iterator[Device]:
        """Devices of incomplete and invalid pools are included."""
        for identity in {**self._local.get(node.name, {}), **self._shared}:
            for slice_ in self._pools[identity].values():
                if slice_.spec.get("perDeviceNodeSelection"):
                    yield from (
                        device for device in slice_.devices if on_node(device.spec, node.labels, node.name)
                    )
                elif on_node(slice_.spec, node.labels, node.name):
                    yield from slice_.devices

    def slices(self) -> Iterator[ObjectView]:
        for pool in self._pools.values():
            for slice_ in pool.values():
                yield slice_.spec

    def by_node(self) -> dict[str, list[Slice]]:
        """Only slices with `nodeName` are included."""
        found: dict[str, list[Slice]] = {}
        for pool in self._pools.values():
            for slice_ in pool.values():
                if node := slice_.spec.get("nodeName"):
                    found.setdefault(node, []).append(slice_)
        return found
