"""Decides by an easier problem whether a search can succeed at all.

In it every request finds devices of its own, constraints do not count, and counters are summed up over all
their sets. It is solved once, at the first step back: without it the search would try all combinations.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

from kubeskew.scheduler.allocator.allocated_state import AllocatedState
from kubeskew.scheduler.allocator.candidates import Option, Preparation, PreparedClaim, wants_all
from kubeskew.scheduler.allocator.counters import AvailableCounters
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.slices import Device

_Slot = list[int]  # positions of the candidates for a device of a request


class Relaxation:
    """The easier problem of one search."""

    def __init__(
        self,
        claims: Sequence[PreparedClaim],
        pools: NodePools,
        state: AllocatedState,
        counters: AvailableCounters,
        preparation: Preparation,
    ) -> None:
        self._claims = claims
        self._pools = pools
        self._state = state
        self._counters = counters
        self._preparation = preparation

    def is_hopeless(self) -> bool:
        """Returns whether there is no solution.

        False also if a selector fails, or all devices must meet a constraint: the search finds such errors in
        their turn.
        """
        if any(claim.constraints and wants_all(claim) for claim in self._claims):
            return False
        try:
            slots = list(self._slots())
        except AllocationError:
            return False
        return not all(slots) or not (
            _can_all_be_granted(slots, self._shareable()) and not self._needs_too_much(slots)
        )

    def _slots(self) -> Iterator[_Slot]:
        """Yields the candidates for every device that must be found; not for admin access, which takes
        nothing."""
        for claim in self._claims:
            for request in claim.requests:
                slot = [
                    position
                    for position, device in enumerate(self._pools.candidates)
                    if sum(
                        self._can_have(option, device) for option in request.options
                    )  # errors of all count
                ]
                if not any(option.plan.admin_access for option in request.options):
                    yield from [slot] * min(option.count for option in request.options)

    def _can_have(self, option: Option, device: Device) -> bool:
        return (
            device.id not in self._state.devices
            and self._preparation.selectable(option.plan, device)
            and self._preparation.capacity.shortage(option.plan, device) is None
            and option.plan.untolerated(device) is None
        )

    def _shareable(self) -> set[int]:
        return {i for i, device in enumerate(self._pools.candidates) if device.shareable}

    def _needs_too_much(self, slots: Sequence[_Slot]) -> bool:
        """Returns whether all devices together need more of a counter than all sets have."""
        candidates = self._pools.candidates
        needs = [_taken(device) for device in candidates]
        left: dict[str, int] = defaultdict(int)
        seen: set[Hashable] = set()
        for device in candidates:
            key = self._counters.key(device)
            if device.counters and key not in seen:
                seen.add(key)
                for (_, counter), amount in self._counters.pool_counters(
                    device, self._pools
                ).available.items():
                    left[counter] += max(amount, 0)
        numbers = Counter(id(slot) for slot in slots)
        different = {id(slot): slot for slot in slots}
        return any(
            sum(numbers[key] * min(needs[i].get(counter, 0) for i in slot) for key, slot in different.items())
            > amount
            for counter, amount in left.items()
        )


def _taken(device: Device) -> dict[str, int]:
    """Returns what a device takes, by counter; nothing for a shared device, which pays once for all its
    users."""
    total: dict[str, int] = defaultdict(int)
    for _, amounts in device.counters if not device.shareable else ():
        for counter, amount in amounts.items():
            total[counter] += amount
    return total


def _can_all_be_granted(slots: Sequence[_Slot], shareable: set[int]) -> bool:
    """Returns whether every device can have a candidate of its own: a maximal flow between few groups.

    Devices with the same candidates form a group, and so do candidates for the same devices.
    """
    demand = Counter(id(slot) for slot in slots)
    wanted = {id(slot): slot for slot in slots if shareable.isdisjoint(slot)}
    wanted_by: dict[int, list[int]] = defaultdict(list)  # candidate → slots
    for slot, positions in wanted.items():
        for position in positions:
            wanted_by[position].append(slot)
    flow = _Flow(Counter(map(tuple, wanted_by.values())))
    return all(flow.grant(slot, demand[slot]) for slot in wanted)


class _Flow:
    """Counts how many candidates of each group go to each slot; a group is named by the slots that want
    it."""

    def __init__(self, supply: Mapping[tuple[int, ...], int]) -> None:
        self._free = dict(supply)
        self._groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for group in supply:
            for slot in group:
                self._groups[slot].append(group)
        self._given: dict[tuple[int, tuple[int, ...]], int] = defaultdict(int)

    def grant(self, slot: int, number: int) -> bool:
        """Gives the slot so many candidates, taking some from slots that can have others."""
        while number:
            given = self._push(slot, number, set())
            if not given:
                return False
            number -= given
        return True

    def _push(self, slot: int, number: int, asked: set[tuple[int, ...]]) -> int:
        for group in self._groups[slot]:
            if self._free[group]:
                given = min(number, self._free[group])
                self._free[group] -= given
                self._given[slot, group] += given
                return given
        for group in self._groups[slot]:
            if group in asked:
                continue
            asked.add(group)
            for other in group:
                has = self._given[other, group] if other != slot else 0
                given = self._push(other, min(number, has), asked) if has else 0
                if given:
                    self._given[other, group] -= given
                    self._given[slot, group] += given
                    return given
        return 0
