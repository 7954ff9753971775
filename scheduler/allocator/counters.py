"""Counters that partitions of a device share: what is left of them during a search.

What the search takes is added up and given back when it steps back, with upstream's gaps: the caller decides
when to call `give_back`, and upstream does not always.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/allocator_*.go, 1.33 … 1.37.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from scheduler.allocator.allocated_state import AllocatedState, DeviceID
from scheduler.allocator.devices import Device
from scheduler.allocator.pools import NodePools
from scheduler.allocator.rules import AllocatorRules

Key = tuple[str, str]  # counter set, counter


class Shortage(NamedTuple):
    """A counter of which too little is left; in nanos."""

    counter_set: str
    counter: str
    needed: int
    available: int


class _Supply:
    """The counters of one pool (of one slice before 1.35)."""

    def __init__(self, available: dict[Key, int], *, running: bool) -> None:
        self.available = available
        self.consumed: dict[Key, int] = {}
        self.overdrawn = [key for key, amount in available.items() if amount < 0 and running]
        self.unknown = None if running else 0  # 1.33: what is not there is used up

    def add(self, device: Device, sign: int) -> None:
        for name, amounts in device.counters:
            for counter, amount in amounts.items():
                key = (name, counter)
                self.consumed[key] = self.consumed.get(key, 0) + sign * amount

    def shortage(self, device: Device) -> Shortage | None:
        """Of what the device, already added, takes; one that others overdrew spoils the whole pool."""
        for key in self.overdrawn:
            return Shortage(*key, self.consumed.get(key, 0), self.available[key])
        for name, amounts in device.counters:
            for counter, amount in amounts.items():
                key = (name, counter)
                available = self.available.get(key, self.unknown)
                if available is not None and available < self.consumed[key]:
                    return Shortage(name, counter, amount, available - self.consumed[key] + amount)
        return None


class CounterBook:
    """Of one search on one node."""

    def __init__(self, pools: NodePools, state: AllocatedState, rules: AllocatorRules) -> None:
        self._pools = pools
        self._rules = rules
        self._uses: Callable[[DeviceID], bool] = (
            state.uses if rules.shared_devices_use_counters else state.devices.__contains__
        )
        self._supplies: dict[str, _Supply] = {}

    def take(self, device: Device) -> Shortage | None:
        """Why the device cannot have its counters; None if it has them now."""
        supply = self._supply(device)
        supply.add(device, 1)
        short = supply.shortage(device)
        if short is not None:
            supply.add(device, -1)
        return short

    def give_back(self, device: Device) -> None:
        self._supply(device).add(device, -1)

    def short_without(self, device: Device) -> Shortage | None:
        """What `take` would answer."""
        short = self.take(device)
        if short is None:
            self.give_back(device)
        return short

    def consumption(self) -> Iterable[tuple[str, Mapping[Key, int]]]:
        """What the search has taken, by supply."""
        return [(name, supply.consumed) for name, supply in self._supplies.items()]

    def _supply(self, device: Device) -> _Supply:
        # Upstream's key is the pool's name alone: drivers that share a pool name share what it says first.
        key = device.id.pool if self._rules.pool_counters else device.slice.name
        supply = self._supplies.get(key)
        if supply is None:
            supply = self._supplies[key] = self._new_supply(device)
        return supply

    def _new_supply(self, device: Device) -> _Supply:
        if self._rules.pool_counters:
            pool = self._pools.by_id[device.slice.pool]
            sets, users = pool.counters, [*pool.devices, *pool.elsewhere]
        else:
            sets, users = dict(device.slice.counter_sets), [*device.slice.devices]
        available = {
            (name, counter): left for name, amounts in sets.items() for counter, left in amounts.items()
        }
        for user in users:
            if user.counters and self._uses(user.id):
                for name, amounts in user.counters:
                    for counter, amount in amounts.items():
                        if (name, counter) in available:
                            available[name, counter] -= amount
        return _Supply(available, running=self._rules.running_counters)
