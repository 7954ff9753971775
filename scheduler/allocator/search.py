"""The search: exhaustive, depth first, the first full solution wins. It keeps account of what it has taken,
does not repeat what failed or was hopeless, and decides by an easier problem whether it can succeed at
all.

Upstream's gaps are kept: up to 1.36.2 a refused device keeps what it has taken of counters and constraints,
and a shared device that is given back keeps its counters (kubernetes 140431). `leaks` counts these events.

What failed or was hopeless is remembered only as long as stepping back leaves nothing behind
(`SearchState.leaks`).

In the easier problem (`Relaxation`) every request finds devices of its own, constraints do not count, and
counters are summed up over all their sets. It is solved once, at the first step back: without it the search
would try all combinations.

Order: claims, their requests, the alternatives of a request, its devices one after the other, candidates in
the order of pools and slices. Like upstream's, the search does not always restore what it remembers when it
steps back (counters, constraints); answers depend on it. As long as nothing is left behind, devices like
one that failed are not tried again.

Sources: k8s.io/dynamic-resource-allocation/structured/internal/*/allocator_*.go (also allocateDevice), 1.31 …
1.37.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from kubeskew.apimachinery.process.runtime import Panic
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, DeviceID, taken
from kubeskew.scheduler.allocator.claims import (
    AllocationError,
    NodeAllocationError,
    SearchTimeout,
    TooManyResults,
    Unsolvable,
)
from kubeskew.scheduler.allocator.constraints import value_set
from kubeskew.scheduler.allocator.counters import AvailableCounters, CounterUsage
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.requests import (
    MAX_RESULTS,
    Choice,
    ClaimPlan,
    ClaimSolution,
    Option,
    Preparation,
    PreparedClaim,
    RequestPlan,
    Solution,
    wants_all,
)
from kubeskew.scheduler.allocator.slices import Device, NodeView

Undo = Callable[[], None]
_Slot = list[int]  # positions of the candidates for a device of a request
_STEPS_BETWEEN_LOOKS = 256  # at the clock
_CALLS_PER_STEP = 4  # from one device, request or claim to the next


class SearchState:
    """The state of one search; claims are known by their index."""

    def __init__(
        self,
        claims: int,
        counters: CounterUsage,
        state: AllocatedState,
        preparation: Preparation,
        features: AllocatorFeatures,
    ) -> None:
        self.choices: list[list[Choice]] = [[] for _ in range(claims)]
        self.leaks = 0
        self.counters = counters
        self.capacity: dict[DeviceID, dict[str, Quantity]] = {}  # taken of shared devices by this search
        self._users: dict[DeviceID, set[int]] = {}  # device → claims
        self._state = state
        self._preparation = preparation
        self._features = features

    def available(self, claim: int, request: RequestPlan, device: Device) -> bool:
        """Admin access ignores other claims' use of the device, but not its own."""
        users = self._users.get(device.id)
        if request.admin_access:
            return not users or claim not in users or not self._features.admin_once_per_claim
        shares = self._features.shares_overlooked or device.shareable
        return not users and self._state.is_free(device.id, shares=shares)

    def fits(self, request: RequestPlan, device: Device) -> bool:
        """Capacity that this search has given to other requests counts as used."""
        return self._preparation.capacity.shortage(request, device, self.capacity.get(device.id)) is None

    def take(
        self,
        claim: int,
        prepared: PreparedClaim,
        request: RequestPlan,
        device: Device,
        number: int,
        *,
        must: bool,
    ) -> Undo | None:
        """Takes the device; the result gives it back, and is None if the device is not available.

        `number` counts the devices of the request, from 0 on. Raises AllocationError if the device `must` be
        taken but a constraint forbids it.
        """
        if not self.available(claim, request, device):
            return None
        paid = self._features.counters_taken_once and device.shareable and self._is_shared(device)
        counted = bool(device.counters) and not paid
        if device.counters and not self._features.gates.partitionable_devices:
            return None
        if counted and self.counters.take(device) is not None:
            return None
        tolerated = not device.taints or request.untolerated(device) is None
        joined = tolerated and self._join(prepared, request, device, must=must)
        if joined and self.fits(request, self._measured(device, number)):
            return self._record(claim, prepared, request, device, counted=counted)
        self._refuse(prepared, request, device, joined=joined, counted=counted)
        if joined and not device.shareable and self._features.capacity_by_number:
            self._users.setdefault(device.id, set()).add(claim)  # marked already, and never given back
        return None

    def _measured(self, device: Device, number: int) -> Device:
        """The returned device's capacity decides in the end; raises Panic if there is none."""
        if not self._features.capacity_by_number:
            return device
        devices = device.slice.devices
        if number >= len(devices):
            raise Panic(f"runtime error: index out of range [{number}] with length {len(devices)}")
        return devices[number]

    def keep(self) -> None:
        """Counts something that stays taken on stepping back."""
        self.leaks += 1

    def _refuse(
        self, prepared: PreparedClaim, request: RequestPlan, device: Device, *, joined: bool, counted: bool
    ) -> None:
        if self._features.keeps_refused_counters:
            self.leaks += joined + counted
            return
        for constraint in prepared.constraints if joined else ():
            self.leaks += not constraint.remove(request)
        if counted:
            self.counters.give_back(device)

    def _is_shared(self, device: Device) -> bool:
        state = self._state
        known = device.id in state.consumed or device.id in self.capacity
        return known or (device.id in state.shared and not self._features.shares_without_capacity_pay)

    def _join(self, prepared: PreparedClaim, request: RequestPlan, device: Device, *, must: bool) -> bool:
        for index, constraint in enumerate(prepared.constraints):
            if constraint.add(request, device):
                continue
            if must:
                raise request.error(
                    f"cannot add device {device.id} because a claim constraint would not be satisfied"
                )
            for joined in prepared.constraints[:index]:
                self.leaks += not joined.remove(request)
            return False
        return True

    def _record(
        self, claim: int, prepared: PreparedClaim, request: RequestPlan, device: Device, *, counted: bool
    ) -> Undo:
        share, first = None, False
        if device.shareable:
            share = taken(request.capacity, device.capacities, self._preparation.capacity.rounding)
            first = device.id not in self.capacity
            self._share(device, share)
        elif not request.admin_access or self._features.admin_once_per_claim:
            self._users.setdefault(device.id, set()).add(claim)
        before = len(self.choices[claim])
        self.choices[claim].append(Choice(request, device, share))

        def undo() -> None:
            del self.choices[claim][before:]
            for constraint in prepared.constraints:
                self.leaks += not constraint.remove(request)
            if share is not None:
                self._unshare(device, share, first=first, counted=counted)
                return
            self._users.get(device.id, set()).discard(claim)
            if device.counters:
                self.counters.give_back(device)

        return undo

    def _share(self, device: Device, share: dict[str, Quantity]) -> None:
        used = self.capacity.setdefault(device.id, {})
        for name, amount in share.items():
            used[name] = used[name] + amount if name in used else amount

    def _unshare(self, device: Device, share: dict[str, Quantity], *, first: bool, counted: bool) -> None:
        used = self.capacity[device.id]
        for name, amount in share.items():
            used[name] = used[name] - amount
        keeps_refused_counters = self._features.keeps_refused_counters
        unused = share and all(amount.is_zero() for amount in used.values())
        if unused if keeps_refused_counters else first:
            del self.capacity[device.id]
        if keeps_refused_counters:
            self.leaks += counted or not share
        elif counted:
            self.counters.give_back(device)


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
        """Devices that no request and no constraint distinguishes have equal keys."""
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
        """Comprises all that the rest of the search depends on at the beginning of a request; None if nothing
        is to be remembered."""
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


class Relaxation:
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
        """True means that there is certainly no solution.

        False also if a selector fails, or all devices must meet a constraint: the search finds these errors
        in their turn.
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
        """Every device that must be found has a slot with its candidates; admin access, which takes nothing,
        has none."""
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
        """Compares, by counter, the need of all devices together with the sum over all sets."""
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
    """Amounts by counter; a shared device, which pays once for all its users, takes nothing."""
    total: dict[str, int] = defaultdict(int)
    for _, amounts in device.counters if not device.shareable else ():
        for counter, amount in amounts.items():
            total[counter] += amount
    return total


def _can_all_be_granted(slots: Sequence[_Slot], shareable: set[int]) -> bool:
    """Every device must get a candidate of its own: a maximal flow between few groups.

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
        """Gives the slot `number` candidates, taking some from slots that can have others."""
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


@contextmanager
def _room_for(calls: int) -> Iterator[None]:
    """Raises the limit of nested calls by `calls`: a pod may have many claims. Calls within Python need no
    stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Search:
    def __init__(
        self,
        claims: Sequence[ClaimPlan],
        pools: NodePools,
        node: NodeView,
        state: AllocatedState,
        counters: AvailableCounters,
        features: AllocatorFeatures,
        expired: Callable[[], bool],
    ) -> None:
        self._plans = claims
        self._pools = pools
        self._features = features
        self._candidates = pools.candidates
        self._preparation = Preparation(pools, node, state, features, expired)
        self._claims: list[PreparedClaim] = []
        self._state = SearchState(
            len(claims), CounterUsage(counters, pools), state, self._preparation, features
        )
        # A shared device can serve a request several times; others may leave counters behind.
        self._may_leak = not features.combinations and any(
            device.shareable or (device.counters and device.taints) for device in pools.candidates
        )
        self._expired = expired
        self._steps = 0
        self._pruning: Pruning | None = None
        self._barrier = pools.first_invalid if features.invalid_pools_fail else None
        self._relaxation: Relaxation | None = None
        # An error counts before the proof that there is no solution.
        if self._barrier is None and not features.all_overlook_class:
            self._relaxation = Relaxation(self._claims, pools, state, counters, self._preparation)

    def run(self) -> Solution | None:
        """None means that there is no solution; raises AllocationError."""
        self._claims += [self._preparation.claim(plan) for plan in self._plans]
        if self._succeeds():
            return [
                ClaimSolution(choices, [claim.chosen[index] for index in range(len(claim.requests))])
                for claim, choices in zip(self._claims, self._state.choices, strict=True)
            ]
        if self._features.whole_pools and self._pools.any_invalid:
            raise NodeAllocationError("invalid resource pools were encountered")
        return None

    def _succeeds(self) -> bool:
        requests = [request for claim in self._claims for request in claim.requests]
        devices = sum(max(option.count for option in request.options) for request in requests)
        with _room_for(_CALLS_PER_STEP * (devices + len(requests) + len(self._claims))):
            try:
                return self._next_claim(0)
            except Unsolvable:
                return False

    def _is_hopeless(self) -> bool:
        """Solves the easier problem once, after the first step back."""
        if self._relaxation is None:
            return False
        relaxation, self._relaxation = self._relaxation, None
        return relaxation.is_hopeless()

    def _next_claim(self, claim: int) -> bool:
        return claim == len(self._claims) or self._next_request(claim, 0)

    def _next_request(self, claim: int, index: int) -> bool:
        """True means that this and all later requests and claims can be satisfied."""
        requests = self._claims[claim].requests
        if index == len(requests):
            try:
                return self._next_claim(claim + 1)
            except TooManyResults:
                return False  # other devices for earlier claims may lead to smaller alternatives
        situation = self._pruning.situation(claim, index, self._state) if self._pruning else None
        if self._pruning and situation in self._pruning.hopeless:
            return False
        leaks = self._state.leaks
        if requests[index].prioritized:
            done = self._alternatives(claim, index, requests[index].options)
        else:
            done = self._option(claim, index, requests[index].options[0])
        if self._pruning and situation is not None and not done and leaks == self._state.leaks:
            self._pruning.hopeless.add(situation)
        return done

    def _option(self, claim: int, index: int, option: Option) -> bool:
        done = self._next_device(claim, index, option, 0, 0)
        if done:
            self._claims[claim].chosen[index] = option.plan
        return done

    def _alternatives(self, claim: int, index: int, options: Sequence[Option]) -> bool:
        """Tries the alternatives of a request until one leads to a solution.

        Alternatives that are all too large are too large with other devices for the request before, too.
        """
        all_too_large = True
        for option in options:
            try:
                if self._option(claim, index, option):
                    return True
                all_too_large = False
            except TooManyResults:
                continue
        if all_too_large:
            raise TooManyResults
        return False

    def _next_device(self, claim: int, index: int, option: Option, number: int, start: int) -> bool:
        """Chooses the rest of the option's devices, from `number` on; candidates before `start` have had
        their turn."""
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_LOOKS == 0 and self._expired():
            raise SearchTimeout
        fixed = option.fixed
        if fixed is not None and not fixed and self._features.empty_all_fails:
            return False
        if number >= option.count:
            return self._next_request(claim, index + 1)
        total = len(self._state.choices[claim]) + option.count
        if self._features.counts_devices_twice and total > MAX_RESULTS:
            return False
        if total - number > MAX_RESULTS:
            raise TooManyResults
        if fixed is None:
            return self._try_candidates(claim, index, option, number, start)
        return self._one_of_all(claim, index, option, number, fixed[number])

    def _one_of_all(self, claim: int, index: int, option: Option, number: int, device: Device) -> bool:
        """Every device must be available, without a choice."""
        features = self._features
        if features.all_counted_panics and device.counters:
            raise Panic("runtime error: invalid memory address or nil pointer dereference")
        undo = self._state.take(claim, self._claims[claim], option.plan, device, number, must=True)
        if undo is None and not features.all_overlook_class:
            if features.all_devices_or_none:
                raise Unsolvable
            return False
        if undo is None or features.all_devices_kept:
            undo = self._state.keep
        request = self._claims[claim].requests[index]
        if features.alternatives_mixed and request.prioritized:
            option = request.options[0]
        done = self._go_on(undo, claim, index, option, number, 0)
        if not done and features.all_overlook_class:
            raise AllocationError("stop allocation")
        return done

    def _try_candidates(self, claim: int, index: int, option: Option, number: int, start: int) -> bool:
        plan, state = option.plan, self._state
        failed: set[Hashable] = set()
        leaks = state.leaks
        end = self._barrier[0] if self._barrier is not None else len(self._candidates)
        for position in range(start, end):
            device = self._candidates[position]
            if not state.available(claim, plan, device):
                continue
            if failed and leaks == state.leaks and self._likes().likeness(device) in failed:
                continue
            if not self._preparation.selectable(plan, device) or not state.fits(plan, device):
                continue
            undo = state.take(claim, self._claims[claim], plan, device, number, must=False)
            if undo is None:
                continue
            if self._go_on(undo, claim, index, option, number, self._next_start(position, plan)):
                return True
            if self._is_hopeless():
                raise Unsolvable
            if leaks != state.leaks:
                failed, leaks = set(), state.leaks
            else:
                failed.add(self._likes().likeness(device))
        if self._barrier is not None:
            pool = self._barrier[1]
            raise AllocationError(f"pool {pool.id.pool} is invalid: {pool.invalid}")
        return False

    def _next_start(self, position: int, plan: RequestPlan) -> int:
        """Candidate at which the search for the next device of a request begins.

        The order of devices within a request makes no difference, so only later ones are tried. Upstream does
        so since 1.36; before, it is done here where it has no side effects.
        """
        if plan.admin_access and not self._features.admin_once_per_claim:
            return 0
        if self._features.combinations or not (self._state.leaks or self._may_leak):
            return position + 1
        return 0

    def _go_on(self, undo: Undo, claim: int, index: int, option: Option, number: int, start: int) -> bool:
        try:
            done = self._next_device(claim, index, option, number + 1, start)
        except TooManyResults:
            undo()
            raise
        if not done:
            undo()
        return done

    def _likes(self) -> Pruning:
        if self._pruning is None:
            self._pruning = Pruning(self._plans, self._claims, self._preparation)
        return self._pruning
