"""The search: exhaustive, depth first, the first full solution wins.

Order: claims, their requests, the devices of a request one after the other, candidates in the order of pools
and slices. Within one request only later candidates are tried for later devices: which of two equal places a
device takes makes no difference.
"""

from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.allocator.constraints import ConstraintState, scalar
from scheduler.allocator.devices import Device, DeviceID
from scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from scheduler.allocator.pools import NodePools, NodeView
from scheduler.allocator.requests import MAX_RESULTS, ClaimPlan, RequestPlan
from scheduler.allocator.rules import AllocatorRules

_STEPS_BETWEEN_LOOKS = 256  # at the clock


Timer = Callable[[], Callable[[], bool]]  # starts; what it gives says when the time is over


def no_limit() -> Callable[[], bool]:
    return lambda: False


class Choice(NamedTuple):
    """One device for one request."""

    request: RequestPlan
    device: Device


Solution = Sequence[Sequence[Choice]]  # per claim


@dataclass(slots=True)
class _Claim:
    requests: list[RequestPlan]
    constraints: list[ConstraintState]
    fixed: dict[int, list[Device]]  # request index → its devices, where it wants all


class Search:
    """One search for a solution on one node."""

    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        pools: NodePools,
        node: NodeView,
        allocated: Set[DeviceID],
        rules: AllocatorRules,
        timer: Timer = no_limit,
    ) -> None:
        self._plans = claims
        self._pools = pools
        self._node = node
        self._allocated = allocated
        self._rules = rules
        self._candidates = pools.candidates
        self._claims: list[_Claim] = []
        self._choices: list[list[Choice]] = [[] for _ in claims]
        self._expired = timer()
        self._steps = 0
        self._likenesses: dict[DeviceID, Hashable] = {}
        self._attributes = [
            each.attribute
            for plan in claims
            for each in plan.constraints
            if not isinstance(each, AllocationError)
        ]
        self._taken: set[DeviceID] = set()
        self._taken_by_claim: list[set[DeviceID]] = [set() for _ in claims]

    def run(self) -> Solution | None:
        """None if there is no solution; raises AllocationError."""
        for plan in self._plans:
            self._claims.append(self._prepare(plan))
        if any(not devices for claim in self._claims for devices in claim.fixed.values()) and (
            self._rules.empty_all_fails
        ):
            return None
        if self._next_claim(0):
            return self._choices
        if self._rules.whole_pools and self._pools.any_invalid:
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    # -- before the search

    def _prepare(self, plan: ClaimPlan) -> _Claim:
        requests: list[RequestPlan] = []
        fixed: dict[int, list[Device]] = {}
        number = 0
        for index, request in enumerate(plan.requests):
            if isinstance(request, AllocationError):
                raise request
            requests.append(request)
            if request.count is None:
                fixed[index] = self._all_devices(request)
                number += len(fixed[index])
            else:
                number += request.count
        if number > MAX_RESULTS:
            limit = f"exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {plan.key}: number of requested devices {number} {limit}")
        constraints: list[ConstraintState] = []
        for constraint in plan.constraints:
            if isinstance(constraint, AllocationError):
                raise constraint
            constraints.append(constraint.start())
        return _Claim(requests, constraints, fixed)

    def _all_devices(self, request: RequestPlan) -> list[Device]:
        found: list[Device] = []
        for pool in self._pools.pools:
            if pool.incomplete:
                raise request.error(
                    f"asks for all devices, but resource pool {pool.id} is currently being updated"
                )
            if pool.invalid:
                raise request.error(f"asks for all devices, but resource pool {pool.id} is currently invalid")
            found += [device for device in pool.devices if self._selectable(request, device)]
        return found

    def _selectable(self, request: RequestPlan, device: Device) -> bool:
        return request.selects(device) and device.is_on(self._node.labels, self._node.name)

    # -- the search

    def _next_claim(self, claim: int) -> bool:
        return claim == len(self._claims) or self._next_request(claim, 0)

    def _next_request(self, claim: int, request: int) -> bool:
        if request == len(self._claims[claim].requests):
            return self._next_claim(claim + 1)
        fixed = self._claims[claim].fixed.get(request)
        if fixed is not None:
            return self._next_fixed(claim, request, fixed, 0)
        return self._next_device(claim, request, 0, 0)

    def _next_fixed(self, claim: int, request: int, devices: list[Device], index: int) -> bool:
        """A request for all devices: each must be available, and there is nothing to choose."""
        if index == len(devices):
            return self._next_request(claim, request + 1)
        plan, device = self._claims[claim].requests[request], devices[index]
        if not self._available(claim, plan, device) or not device.usable:
            return False
        undo = self._take(claim, plan, device)
        if undo is None:
            raise plan.error(
                f"cannot add device {device.id} because a claim constraint would not be satisfied"
            )
        if self._next_fixed(claim, request, devices, index + 1):
            return True
        undo()
        return False

    def _next_device(self, claim: int, request: int, number: int, start: int) -> bool:
        """`number` devices of the request are chosen; candidates before `start` have had their turn."""
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_LOOKS == 0 and self._expired():
            raise SearchTimeout("timed out trying to allocate devices")
        plan = self._claims[claim].requests[request]
        if number == plan.count:
            return self._next_request(claim, request + 1)
        failed: set[Hashable] = set()
        for position in range(start, len(self._candidates)):
            device = self._candidates[position]
            if failed and self._likeness(device) in failed:
                continue
            if not self._available(claim, plan, device) or not self._selectable(plan, device):
                continue
            undo = self._take(claim, plan, device) if device.usable else None
            if undo is None:
                continue
            if self._next_device(claim, request, number + 1, position + 1):
                return True
            undo()
            failed.add(self._likeness(device))
        return False

    def _likeness(self, device: Device) -> Hashable:
        """Equal for devices that no request and no constraint can tell apart: if one of them led nowhere, so
        will the others. Costs nothing until the first step back."""
        known = self._likenesses.get(device.id)
        if known is None:
            known = self._likenesses[device.id] = self._compare_by(device)
        return known

    def _compare_by(self, device: Device) -> Hashable:
        requests = [request for claim in self._claims for request in claim.requests]
        if any(request.admin_access for request in requests):
            return device.id  # who else uses a device matters then
        try:
            wanted = tuple([self._selectable(request, device) for request in requests])
        except AllocationError:
            return device.id  # to be met in its turn
        return wanted, device.usable, tuple([scalar(device.attribute(name)) for name in self._attributes])

    def _available(self, claim: int, plan: RequestPlan, device: Device) -> bool:
        """Admin access looks past the use by others, but not past this claim's own."""
        if plan.admin_access:
            return device.id not in self._taken_by_claim[claim]
        return device.id not in self._allocated and device.id not in self._taken

    def _take(self, claim: int, plan: RequestPlan, device: Device) -> Callable[[], None] | None:
        """Choose the device and give the way back; None if a constraint forbids it."""
        constraints = self._claims[claim].constraints
        for index, constraint in enumerate(constraints):
            if not constraint.add(plan.name, device):
                for joined in constraints[:index]:
                    joined.remove(plan.name)
                return None
        self._choices[claim].append(Choice(plan, device))
        taken = set() if plan.admin_access else self._taken
        taken.add(device.id)
        self._taken_by_claim[claim].add(device.id)

        def undo() -> None:
            self._choices[claim].pop()
            taken.discard(device.id)
            self._taken_by_claim[claim].discard(device.id)
            for constraint in constraints:
                constraint.remove(plan.name)

        return undo
