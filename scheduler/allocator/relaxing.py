"""Whether a search can succeed at all, judged by an easier problem: every request finds devices of its own if
constraints are forgotten, and counters are summed up over all their sets.

Asked once, at the first step back: what fails here would be tried in all combinations otherwise.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from scheduler.allocator.allocated_state import AllocatedState
from scheduler.allocator.candidates import Option, Preparation, PreparedClaim
from scheduler.allocator.counters import AvailableCounters
from scheduler.allocator.devices import Device
from scheduler.allocator.errors import AllocationError
from scheduler.allocator.pools import NodePools

_Wish = list[int]  # positions of the candidates that a device of a request can be


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
        """False also where a selector fails or all devices must satisfy a constraint: such errors are to be
        met in their turn."""
        if any(claim.constraints and _wants_all(claim) for claim in self._claims):
            return False
        try:
            wishes = list(self._wishes())
        except AllocationError:
            return False
        return not _can_all_be_granted(wishes, self._shareable()) or self._needs_too_much(wishes)

    def _wishes(self) -> Iterator[_Wish]:
        """For every device that must be found, the candidates; not for admin access, which takes nothing."""
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
        """Whether the least that all wishes take of a counter is more than all sets have of it."""
        candidates = self._pools.candidates
        needs = [_taken(device) for device in candidates]
        left: dict[str, int] = defaultdict(int)
        seen: set[str] = set()
        for device in candidates:
            key = self._counters.key(device)
            if device.counters and key not in seen:
                seen.add(key)
                for (_, counter), amount in self._counters.supply(device, self._pools).available.items():
                    left[counter] += max(amount, 0)
        return any(
            sum(min((needs[i].get(counter, 0) for i in wish), default=0) for wish in wishes) > amount
            for counter, amount in left.items()
        )


def _wants_all(claim: PreparedClaim) -> bool:
    return any(option.fixed is not None for request in claim.requests for option in request.options)


def _taken(device: Device) -> dict[str, int]:
    """By counter name; nothing for a shared device, which pays once for all its users."""
    total: dict[str, int] = defaultdict(int)
    for _, amounts in device.counters if not device.shareable else ():
        for counter, amount in amounts.items():
            total[counter] += amount
    return total


def _can_all_be_granted(wishes: Sequence[_Wish], shareable: set[int]) -> bool:
    """Whether every wish can have a candidate of its own: a matching, by augmenting paths."""
    owner: dict[int, int] = {}  # candidate → wish

    def grant(wish: int, asked: set[int]) -> bool:
        for position in wishes[wish]:
            if position in shareable:
                return True
            if position in asked:
                continue
            asked.add(position)
            if position not in owner or grant(owner[position], asked):
                owner[position] = wish
                return True
        return False

    return all(grant(wish, set()) for wish in range(len(wishes)))
