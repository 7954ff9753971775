"""Pools of devices as one node sees them: which slices count, whether they are complete and valid, in which
order they are searched.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/pools_*.go, 1.31 … 1.37.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.slices import Device, NodeView, PoolID, Slice

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
    """Returns the node's view of `pools`, each given with its slices of all generations."""
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
    """Returns one pool, or None if none of its slices is for the node."""
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
    """Returns the pool, if nothing is wrong with it."""
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
