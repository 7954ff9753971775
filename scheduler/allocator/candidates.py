"""Prepares a search for a claim on a node, and decides whether a device is a candidate at all."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kubeskew.scheduler.allocator.allocated_state import AllocatedState, Amounts, DeviceID
from kubeskew.scheduler.allocator.capacity import CapacityError, Rounding, refusal
from kubeskew.scheduler.allocator.constraints import ConstraintState
from kubeskew.scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.requests import MAX_RESULTS, ClaimPlan, Entry, RequestPlan
from kubeskew.scheduler.allocator.slices import Device, NodeView
from kubeskew.scheduler.allocator.solution import never


@dataclass(frozen=True, slots=True)
class Option:
    """A request or alternative, with how many devices it needs here."""

    plan: RequestPlan
    count: int
    fixed: Sequence[Device] | None  # all devices, if it wants all


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    options: Sequence[Option]
    prioritized: bool


@dataclass(slots=True)
class PreparedClaim:
    requests: Sequence[PreparedRequest]
    constraints: Sequence[ConstraintState]
    chosen: dict[int, RequestPlan] = field(default_factory=dict)  # request index → alternative


def wants_all(claim: PreparedClaim) -> bool:
    """Returns whether a request or alternative wants all devices."""
    return any(option.fixed is not None for request in claim.requests for option in request.options)


class CapacityCheck:
    """Checks that devices have the capacity that requests need, beside their other users."""

    def __init__(self, state: AllocatedState, features: AllocatorFeatures) -> None:
        self._consumed = state.consumed
        self._shares = features.gates.consumable_capacity
        self.rounding = Rounding(features.gates.fractional_ranges, features.exact_rounding)
        self._all = features.all_even_if_used_up

    def shortage(self, request: RequestPlan, device: Device, allocating: Amounts | None = None) -> str | None:
        """Returns why the device cannot serve the request, None if it can; raises AllocationError.

        A device that is not shared must have the capacity as well.
        """
        used = [amounts for amounts in (self._consumed.get(device.id), allocating) if amounts]
        return self._refusal(request, device, used)

    def is_one_of_all(self, request: RequestPlan, device: Device) -> bool:
        """Returns whether a request for all devices includes this one; raises AllocationError."""
        reason = self._refusal(request, device, ()) if self._all else self.shortage(request, device)
        return reason is None

    def _refusal(self, request: RequestPlan, device: Device, used: Sequence[Amounts]) -> str | None:
        if not self._shares or not (device.capacities or request.capacity):
            return None
        try:
            return refusal(request.capacity, device.capacities, used, self.rounding)
        except CapacityError as error:
            raise request.error(str(error)) from None


class Preparation:
    """Makes upstream's checks before the search, in upstream's order."""

    def __init__(
        self,
        pools: NodePools,
        node: NodeView,
        state: AllocatedState,
        features: AllocatorFeatures,
        expired: Callable[[], bool] = never,
    ) -> None:
        """`expired` is checked before selectors are evaluated."""
        self._pools = pools
        self._node = node
        self.capacity = CapacityCheck(state, features)
        self._expired = expired
        self._mixes = features.alternatives_mixed
        self._overlooks_class = features.all_overlook_class
        self._unusable_pool = AllocationError if features.all_ends_attempt else NodeAllocationError
        self._verdicts: dict[int, dict[DeviceID, bool]] = {}  # by plan; several plans may have one

    def claim(self, plan: ClaimPlan) -> PreparedClaim:
        """Returns the prepared claim; raises AllocationError."""
        requests = [self._request(entry) for entry in plan.entries]
        number = sum(min(option.count for option in request.options) for request in requests)
        if number > MAX_RESULTS:
            limit = f"exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {plan.key}: number of requested devices {number} {limit}")
        constraints: list[ConstraintState] = []
        for constraint in plan.constraints:
            if isinstance(constraint, AllocationError):
                raise constraint
            constraints.append(constraint.start())
        return PreparedClaim(requests, constraints)

    def _request(self, entry: Entry) -> PreparedRequest:
        options: list[Option] = []
        verdicts: list[dict[DeviceID, bool]] = [{} for _ in entry.options]
        mixes = self._mixes and entry.prioritized
        for index, plan in enumerate(entry.options):
            if mixes:  # upstream counts too late: it identifies the plan by the number of the one before
                self._verdicts[id(plan)] = verdicts[max(index - 1, 0)]
            fixed = self._all_devices(plan) if plan.count is None else None
            count = len(fixed) if fixed is not None else plan.count or 0
            options.append(Option(plan, count, fixed))
        self._verdicts.clear()  # the search checks again
        if entry.error is not None:
            raise entry.error
        return PreparedRequest(options, entry.prioritized)

    def _all_devices(self, request: RequestPlan) -> list[Device]:
        found: list[Device] = []
        for pool in self._pools.pools:
            trouble = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
            if trouble:
                where = f"resource pool {pool.id} is currently {trouble}"
                raise request.error(f"asks for all devices, but {where}", self._unusable_pool)
            found += [device for device in pool.devices if self._is_one_of_all(request, device)]
        return found

    def _is_one_of_all(self, request: RequestPlan, device: Device) -> bool:
        if self._overlooks_class:
            return request.selectors.hold_for(device)
        return self.selectable(request, device) and self.capacity.is_one_of_all(request, device)

    def selectable(self, request: RequestPlan, device: Device) -> bool:
        """Returns whether the device meets the selectors; raises AllocationError for a selector that
        fails."""
        if not device.usable:
            return False
        verdicts = self._verdicts.get(id(request)) if self._verdicts else None
        if verdicts is None:
            return self._selects(request, device)
        if device.id not in verdicts:
            verdicts[device.id] = self._selects(request, device)
        return verdicts[device.id]

    def _selects(self, request: RequestPlan, device: Device) -> bool:
        known = device.verdicts.get(request.key)
        if known is None:
            if self._expired():
                raise SearchTimeout
            known = request.selects(device)
        if not known:
            return False
        return not device.per_node or device.is_on(self._node.labels, self._node.name)
