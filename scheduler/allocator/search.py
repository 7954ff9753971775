"""The search: exhaustive, depth first, the first full solution wins.

Order: claims, their requests, the alternatives of a request, its devices one after the other, candidates in
the order of pools and slices. Like upstream's, the search does not always restore what it remembers when it
steps back (counters, constraints); answers depend on it. As long as nothing is left behind, likes are not
tried again.

Source: k8s.io/dynamic-resource-allocation/structured/internal/*/allocator_*.go, 1.31 … 1.37.
"""

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager

from kubeskew.apimachinery.process.go_panic import Panic
from kubeskew.scheduler.allocator.allocated_state import AllocatedState
from kubeskew.scheduler.allocator.candidates import Option, Preparation, PreparedClaim
from kubeskew.scheduler.allocator.counters import AvailableCounters, CounterUsage
from kubeskew.scheduler.allocator.errors import (
    AllocationError,
    NodeAllocationError,
    SearchTimeout,
    TooManyResults,
    Unsolvable,
)
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.pruning import Pruning
from kubeskew.scheduler.allocator.relaxing import Relaxation
from kubeskew.scheduler.allocator.requests import MAX_RESULTS, ClaimPlan, RequestPlan
from kubeskew.scheduler.allocator.search_state import SearchState, Undo
from kubeskew.scheduler.allocator.slices import Device, NodeView
from kubeskew.scheduler.allocator.solution import ClaimSolution, Solution

_STEPS_BETWEEN_LOOKS = 256  # at the clock
_CALLS_PER_STEP = 4  # from one device, request or claim to the next


@contextmanager
def _room_for(calls: int) -> Iterator[None]:
    """Allows that many nested calls: a pod may have many claims. Calls within Python need no stack."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + calls)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


class Search:
    """One search for a solution on one node."""

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
        """Returns None if there is no solution; raises AllocationError."""
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
        """Returns whether the easier problem has no solution; solved once, after the first step back."""
        if self._relaxation is None:
            return False
        relaxation, self._relaxation = self._relaxation, None
        return relaxation.is_hopeless()

    def _next_claim(self, claim: int) -> bool:
        return claim == len(self._claims) or self._next_request(claim, 0)

    def _next_request(self, claim: int, index: int) -> bool:
        """Goes on with the next request; returns whether this and all later requests and claims can be
        satisfied."""
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

        If all are too large, they are so with other devices for the request before, too.
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
        """Takes a device of a request for all: each must be available, without a choice."""
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
        """Returns the first candidate for the next device of a request.

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
