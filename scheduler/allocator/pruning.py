"""Remembers what need not be tried again: a device like one that failed, and a situation that was hopeless.

Both are valid only as long as stepping back leaves nothing behind (`SearchState.leaks`).
"""

from collections import Counter
from collections.abc import Hashable, Sequence

from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.allocator.candidates import Preparation, PreparedClaim, wants_all
from kubeskew.scheduler.allocator.constraints import value_set
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.requests import ClaimPlan, RequestPlan
from kubeskew.scheduler.allocator.search_state import SearchState
from kubeskew.scheduler.allocator.slices import Device


class Pruning:
    """The memory of one search; it is empty until the first step back."""

    def __init__(
        self, plans: Sequence[ClaimPlan], claims: Sequence[PreparedClaim], preparation: Preparation
    ) -> None:
        self._preparation = preparation
        self._requests: list[RequestPlan] = [
            option.plan for claim in claims for request in claim.requests for option in request.options
        ]
        self._attributes = sorted(
            {
                constraint.attribute
                for plan in plans
                for constraint in plan.constraints
                if not isinstance(constraint, AllocationError)
            }
        )
        # The order of equal devices decides whether a constraint on all devices is ever checked.
        strict = any(claim.constraints and wants_all(claim) for claim in claims)
        self._alone = strict or any(request.admin_access for request in self._requests)
        self._likenesses: dict[DeviceID, Hashable] = {}
        self.hopeless: set[Hashable] = set()

    def likeness(self, device: Device) -> Hashable:
        """Returns a key that is equal for devices that no request and no constraint distinguishes."""
        known = self._likenesses.get(device.id)
        if known is None:
            known = self._likenesses[device.id] = self._compare_by(device)
        return known

    def _compare_by(self, device: Device) -> Hashable:
        if self._alone or device.shareable:
            return device.id  # other users of a device matter then
        try:
            wanted = tuple([self._wants(request, device) for request in self._requests])
        except AllocationError:
            return device.id  # found when its turn comes
        counters = frozenset(
            (name, counter, amount)
            for name, amounts in device.counters
            for counter, amount in amounts.items()
        )
        origin = (device.slice.pool, device.slice.name) if counters else None
        return wanted, tuple([_value(device, name) for name in self._attributes]), counters, origin

    def _wants(self, request: RequestPlan, device: Device) -> bool:
        return (
            self._preparation.selectable(request, device)
            and self._preparation.capacity.shortage(request, device) is None
            and request.untolerated(device) is None
        )

    def situation(self, claim: int, index: int, state: SearchState) -> Hashable | None:
        """Returns all that the rest of the search depends on at the beginning of a request."""
        if self._alone:
            return None
        taken = Counter(
            self.likeness(choice.device)
            for choices in state.choices
            for choice in choices
            if not choice.device.shareable
        )
        capacity = frozenset(
            (device, name, amount) for device, used in state.capacity.items() for name, amount in used.items()
        )
        own = Counter((choice.request.name, self.likeness(choice.device)) for choice in state.choices[claim])
        return claim, index, state.leaks, frozenset(taken.items()), capacity, frozenset(own.items())


def _value(device: Device, name: str) -> Hashable:
    attribute = device.attribute(name)
    return None if attribute is None else (value_set(attribute),)
