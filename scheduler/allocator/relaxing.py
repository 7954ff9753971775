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

_Wish = list[int]  # positions of the candidates for a device of a request


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
            wishes = list(self._wishes())
        except AllocationError:
            return False
        return not all(wishes) or not (
            _can_all_be_granted(wishes, self._shareable()) and not self._needs_too_much(wishes)
        )

    def _wishes(self) -> Iterator[_Wish]:
        """Yields the candidates for every device that must be found; not for admin access, which takes
        nothing."""
        for claim in self._claims:
            for request in claim.requests:
                wish = [
                    position
                    for position, device in enumerate(self._pools.candidates)
                    if sum(
                        self._can_have(option, device) for option in request.options
                    )  # errors of all count
                ]
                if not any(option.plan.admin_access for option in request.options):
                    yield from [wish] * min(option.count for option in request.options)

    def _can_have(self, option: Option, device: Device) -> bool:
        return (
            device.id not in self._state.devices
            and self._preparation.selectable(option.plan, device)
            and self._preparation.capacity.shortage(option.plan, device) is None
            and option.plan.untolerated(device) is None
        )

    def _shareable(self) -> set[int]:
        return {i for i, device in enumerate(self._pools.candidates) if device.shareable}

    def _needs_too_much(self, wishes: Sequence[_Wish]) -> bool:
        """Returns whether all devices together need more of a counter than all sets have."""
        candidates = self._pools.candidates
        needs = [_taken(device) for device in candidates]
        left: dict[str, int] = defaultdict(int)
        seen: set[Hashable] = set()
        for device in candidates:
            key = self._counters.key(device)
            if device.counters and key not in seen:
                seen.add(key)
                for (_, counter), amount in self._counters.supply(device, self._pools).available.items():
                    left[counter] += max(amount, 0)
        numbers = Counter(id(wish) for wish in wishes)
        different = {id(wish): wish for wish in wishes}
        return any(
            sum(numbers[key] * min(needs[i].get(counter, 0) for i in wish) for key, wish in different.items())
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


def _can_all_be_granted(wishes: Sequence[_Wish], shareable: set[int]) -> bool:
    """Returns whether every device can have a candidate of its own: a maximal flow between few groups.

    Devices with the same candidates form a group, and so do candidates for the same devices.
    """
    demand = Counter(id(wish) for wish in wishes)
    wanted = {id(wish): wish for wish in wishes if shareable.isdisjoint(wish)}
    wanted_by: dict[int, list[int]] = defaultdict(list)  # candidate → wishes
    for wish, positions in wanted.items():
        for position in positions:
            wanted_by[position].append(wish)
    flow = _Flow(Counter(map(tuple, wanted_by.values())))
    return all(flow.grant(wish, demand[wish]) for wish in wanted)


class _Flow:
    """Counts how many candidates of each group go to each wish; a group is named by the wishes that want
    it."""

    def __init__(self, supply: Mapping[tuple[int, ...], int]) -> None:
        self._free = dict(supply)
        self._groups: dict[int, list[tuple[int, ...]]] = defaultdict(list)
        for group in supply:
            for wish in group:
                self._groups[wish].append(group)
        self._given: dict[tuple[int, tuple[int, ...]], int] = defaultdict(int)

    def grant(self, wish: int, number: int) -> bool:
        """Gives the wish so many candidates, taking some from wishes that can have others."""
        while number:
            given = self._push(wish, number, set())
            if not given:
                return False
            number -= given
        return True

    def _push(self, wish: int, number: int, asked: set[tuple[int, ...]]) -> int:
        for group in self._groups[wish]:
            if self._free[group]:
                given = min(number, self._free[group])
                self._free[group] -= given
                self._given[wish, group] += given
                return given
        for group in self._groups[wish]:
            if group in asked:
                continue
            asked.add(group)
            for other in group:
                has = self._given[other, group] if other != wish else 0
                given = self._push(other, min(number, has), asked) if has else 0
                if given:
                    self._given[other, group] -= given
                    self._given[wish, group] += given
                    return given
        return 0
