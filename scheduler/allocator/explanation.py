"""Explains why devices are allocated or not: the checks of the search on each device, in words."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubeskew.apimachinery.quantity import Format, Quantity
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID
from kubeskew.scheduler.allocator.claims import AllocationError
from kubeskew.scheduler.allocator.constraints import Constraint
from kubeskew.scheduler.allocator.counters import AvailableCounters, CounterShortage, CounterUsage
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools, Pool, SliceIndex
from kubeskew.scheduler.allocator.requests import Choice, ClaimPlan, Preparation, RequestPlan, Solution
from kubeskew.scheduler.allocator.slices import Device, NodeView, PoolID

CHOSEN, USABLE = "chosen", "usable"


class PoolVerdict(NamedTuple):
    pool: PoolID
    verdict: str


class DeviceVerdict(NamedTuple):
    device: DeviceID
    verdict: str


class RequestVerdicts(NamedTuple):
    """Only devices of usable pools have a verdict."""

    claim: str
    request: str
    devices: Sequence[DeviceVerdict]


class Explanation(NamedTuple):
    pools: Sequence[PoolVerdict]
    requests: Sequence[RequestVerdicts]


def explain(
    plans: Sequence[ClaimPlan],
    slices: SliceIndex,
    node: NodeView,
    state: AllocatedState,
    features: AllocatorFeatures,
    solution: Solution | None,
) -> Explanation:
    """Explains a search on the node, with its `solution` if it found one.

    Raises AllocationError if a slice does not say which nodes it is for.
    """
    pools = slices.pools(node)
    chosen = [
        (plan, choice)
        for plan, claim_solution in zip(plans, solution or (), strict=False)
        for choice in claim_solution.choices
    ]
    verdicts: list[RequestVerdicts] = []
    for plan in plans:
        for entry in plan.entries:
            own = [choice for of, choice in chosen if of is plan and choice.request.base == entry.name]
            others = [choice for _, choice in chosen if choice not in own]
            checker = _DeviceChecker(pools, node, state, features, own, others)
            verdicts += [
                RequestVerdicts(plan.key, option.name, checker.devices(plan, option))
                for option in entry.options
            ]
    known = [PoolVerdict(identity, _of_pool(pool, features)) for identity, pool in slices.all_pools(node)]
    return Explanation(known, verdicts)


def _of_pool(pool: Pool | None, features: AllocatorFeatures) -> str:
    if pool is None:
        return "ignored: no slice is for this node"
    if pool.obsolete:
        return "ignored: a newer generation is being published"
    if pool.invalid:
        return f"ignored: invalid, {pool.invalid}"
    if pool.incomplete and features.whole_pools:
        return f"ignored: incomplete, {pool.incomplete}"
    if pool.incomplete:
        return f"incomplete, {pool.incomplete}: not for requests for all devices"
    number = len(pool.devices)
    return f"used: {number or 'no'} device{'' if number == 1 else 's'} for this node"


class _DeviceChecker:
    """Checks devices for one request, given the allocated devices and those that the solution gives to
    others."""

    def __init__(
        self,
        pools: NodePools,
        node: NodeView,
        state: AllocatedState,
        features: AllocatorFeatures,
        own: Sequence[Choice],
        others: Sequence[Choice],
    ) -> None:
        self._candidates = pools.candidates
        self._state = state
        self._features = features
        self._preparation = Preparation(pools, node, state, features)
        self._counter_usage = CounterUsage(AvailableCounters(state, features), pools)
        self._own = own
        self._others = others
        counted: set[DeviceID] = set(state.consumed)
        for choice in others:
            if choice.device.counters and choice.device.id not in counted:
                self._counter_usage.take(choice.device)
                counted.add(choice.device.id)

    def devices(self, plan: ClaimPlan, request: RequestPlan) -> list[DeviceVerdict]:
        return [
            DeviceVerdict(candidate.id, self._verdict(plan, request, candidate))
            for candidate in self._candidates
        ]

    def _verdict(self, plan: ClaimPlan, request: RequestPlan, device: Device) -> str:
        if any(choice.device is device and choice.request is request for choice in self._own):
            return CHOSEN
        return next((reason for reason in self._reasons(plan, request, device) if reason), USABLE)

    def _reasons(self, plan: ClaimPlan, request: RequestPlan, device: Device) -> Iterator[str]:
        """Runs the checks as the search does, cheap ones first; an empty text means that a check passed."""
        yield self._in_use(request, device)
        yield _by_selectors(request, device)
        if not self._preparation.selectable(request, device):
            yield "it is not for this node"
        yield self._by_capacity(request, device)
        if device.counters and not self._features.gates.partitionable_devices:
            yield "it consumes counters, but DRAPartitionableDevices is off"
        short = self._counter_usage.short_without(device) if device.counters else None
        yield _too_little(short) if short is not None else ""
        taint = request.untolerated(device)
        if taint is not None:
            value = f"={taint['value']}" if taint.get("value") else ""
            yield f"taint {taint['key']}{value}:{taint['effect']} is not tolerated"
        for index, constraint in enumerate(plan.constraints):
            if isinstance(constraint, Constraint) and constraint.concerns(request):
                yield self._by_constraint(index, constraint, device)

    def _in_use(self, request: RequestPlan, device: Device) -> str:
        shares = self._features.shares_overlooked or device.shareable
        if not request.admin_access and not self._state.is_free(device.id, shares=shares):
            return "in use"
        for choice in self._others:
            if choice.device is device and not device.shareable and not request.admin_access:
                return f"given to request {choice.request.name} of claim {choice.request.claim}"
        if not device.usable:
            return "it has binding conditions, but their gates are off"
        return ""

    def _by_capacity(self, request: RequestPlan, device: Device) -> str:
        shares = [choice.taken for choice in self._others if choice.device is device and choice.taken]
        allocating = {name: share[name] for share in shares for name in share}
        for share in shares[:-1]:
            allocating = {name: amount + share[name] for name, amount in allocating.items()}
        try:
            return self._preparation.capacity.shortage(request, device, allocating) or ""
        except AllocationError as error:
            return str(error)

    @staticmethod
    def _by_constraint(index: int, constraint: Constraint, device: Device) -> str:
        if device.attribute(constraint.attribute) is None:
            return f"constraint #{index}: it has no attribute {constraint.attribute}"
        return ""


def _by_selectors(request: RequestPlan, device: Device) -> str:
    name = request.device_class["metadata"]["name"]
    try:
        index = request.class_selectors.refusing(device)
        if index is not None:
            return f"selector #{index} of class {name} does not match"
        index = request.selectors.refusing(device)
        return "" if index is None else f"selector #{index} of the request does not match"
    except AllocationError as error:
        return str(error)


def _too_little(short: CounterShortage) -> str:
    needed, available = _amount(short.needed), _amount(max(short.available, 0))
    return f"counter {short.counter} of {short.counter_set}: needs {needed}, {available} left"


def _amount(nanos: int) -> str:
    whole, rest = divmod(nanos, 10**9)
    return str(Quantity(nanos, -9) if rest else Quantity(whole, 0, Format.BINARY_SI))
