"""Counters that partitions of a device share: what a search leaves of them.

The search subtracts what it takes and gives it back when it steps back, with upstream's gaps: the caller
decides when to call `give_back`, and upstream does not always.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/allocator_*.go, 1.33 … 1.37.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import NamedTuple

from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.slices import Device

Key = tuple[str, str]  # counter set, counter


class CounterShortage(NamedTuple):
    """A counter of which too little is left; amounts are in nanos."""

    counter_set: str
    counter: str
    needed: int
    available: int


class _PoolCounters(NamedTuple):
    """The counters of one pool (before 1.35 of one slice), minus those of allocated devices."""

    available: Mapping[Key, int]
    overdrawn: Key | None  # a counter that allocated devices overdraw


class AvailableCounters:
    """Supplies, kept until an allocation in the pool or a slice changes."""

    def __init__(
        self, state: AllocatedState, features: AllocatorFeatures, revision: Callable[[], int] | None = None
    ) -> None:
        """`revision` counts changes of slices; without it nothing is kept between searches."""
        self.features = features
        self._changes = state.changes
        self._revision = revision
        self._uses: Callable[[DeviceID], bool] = (
            state.uses if features.shared_devices_use_counters else state.devices.__contains__
        )
        self._known: dict[Hashable, tuple[tuple[int, int], _PoolCounters]] = {}

    def key(self, device: Device) -> Hashable:
        """Drivers whose pools have the same name may share the first's counters."""
        if not self.features.pool_counters:
            return device.slice.name
        return device.id.pool if self.features.counters_by_pool_name else device.slice.pool

    def pool_counters(self, device: Device, pools: NodePools) -> _PoolCounters:
        if self._changes is None or self._revision is None:
            return self._compute(device, pools)
        now, key = (self._revision(), self._changes(device.id.pool)), self.key(device)
        known = self._known.get(key)
        if known is None or known[0] != now:
            known = self._known[key] = (now, self._compute(device, pools))
        return known[1]

    def _compute(self, device: Device, pools: NodePools) -> _PoolCounters:
        if self.features.pool_counters:
            pool = pools.by_id[device.slice.pool]
            sets, users = pool.counters, [*pool.devices, *pool.elsewhere]
        else:
            sets, users = dict(device.slice.counter_sets), [*device.slice.devices]
        available = {
            (name, counter): left for name, amounts in sets.items() for counter, left in amounts.items()
        }
        for user in users:
            if user.counters and self._uses(user.id):
                for key, amount in _amounts(user):
                    if key in available:
                        available[key] -= amount
        return _PoolCounters(available, next((key for key, left in available.items() if left < 0), None))


class CounterUsage:
    """The counters of one search on one node."""

    def __init__(self, counters: AvailableCounters, pools: NodePools) -> None:
        self._counters = counters
        self._pools = pools
        # The counters, and what the search consumes of them.
        self._by_pool: dict[Hashable, tuple[_PoolCounters, dict[Key, int]]] = {}

    def take(self, device: Device) -> CounterShortage | None:
        """None means that the device's counters suffice and are taken now."""
        pool, consumed = self._open(device)
        _add(device, consumed, 1)
        short = self._shortage(device, pool, consumed)
        if short is not None:
            _add(device, consumed, -1)
        return short

    def give_back(self, device: Device) -> None:
        _add(device, self._open(device)[1], -1)

    def short_without(self, device: Device) -> CounterShortage | None:
        """Checks as `take` does, but takes nothing."""
        short = self.take(device)
        if short is None:
            self.give_back(device)
        return short

    def _open(self, device: Device) -> tuple[_PoolCounters, dict[Key, int]]:
        key = self._counters.key(device)
        found = self._by_pool.get(key)
        if found is None:
            found = self._by_pool[key] = (self._counters.pool_counters(device, self._pools), {})
        return found

    def _shortage(
        self, device: Device, pool: _PoolCounters, consumed: Mapping[Key, int]
    ) -> CounterShortage | None:
        """Checks all counters of the device, which are taken already; one overdrawn counter refuses them
        all."""
        running = self._counters.features.running_counters
        spoiled = pool.overdrawn
        if running and spoiled is not None:
            return CounterShortage(*spoiled, consumed.get(spoiled, 0), pool.available[spoiled])
        for key, amount in _amounts(device):
            # A missing counter is used up in 1.33, and ignored later.
            available = pool.available.get(key, None if running else 0)
            if available is not None and available < consumed[key]:
                return CounterShortage(*key, amount, available - consumed[key] + amount)
        return None


def _amounts(device: Device) -> Iterator[tuple[Key, int]]:
    for name, amounts in device.counters:
        for counter, amount in amounts.items():
            yield (name, counter), amount


def _add(device: Device, consumed: dict[Key, int], sign: int) -> None:
    for key, amount in _amounts(device):
        consumed[key] = consumed.get(key, 0) + sign * amount
