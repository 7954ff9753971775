"""The way in: `Allocator(rules, classes, slices, allocated).allocate(node, claims)`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from scheduler.allocator.allocated_state import AllocatedState
from scheduler.allocator.devices import Device
from scheduler.allocator.pools import NodePools, Start
from scheduler.allocator.requests import ClaimPlan, ClassLister, RequestPlan, plan_claim
from scheduler.allocator.results import allocation_result
from scheduler.allocator.rules import AllocatorRules
from scheduler.allocator.search import Search
from scheduler.allocator.slice_index import SliceIndex
from scheduler.allocator.slices import NodeView
from scheduler.allocator.solution import Choice, ClaimSolution, Solution, Timer, no_limit

Object = dict[str, Any]


class Found(NamedTuple):
    """A solution on a node, not yet written out."""

    claims: Sequence[ClaimPlan]
    solution: Solution
    node: str
    rules: AllocatorRules
    share_id: Callable[[], str]

    def results(self) -> list[Object]:
        """One AllocationResult per claim; raises AllocationError."""
        return [
            allocation_result(claim, solution, self.node, self.rules, self.share_id)
            for claim, solution in zip(self.claims, self.solution, strict=True)
        ]


class Allocator:
    """Allocates devices that `allocated` leaves, which may change between calls."""

    def __init__(
        self,
        rules: AllocatorRules,
        classes: ClassLister,
        slices: SliceIndex,
        allocated: AllocatedState,
        share_id: Callable[[], str],
    ) -> None:
        """`share_id` makes the random identifiers of shares."""
        self._rules = rules
        self._classes = classes
        self._slices = slices
        self._allocated = allocated
        self._share_id = share_id

    def plan(self, claims: Sequence[Mapping[str, Any]]) -> list[ClaimPlan]:
        """What does not depend on the node: once per pod."""
        return [plan_claim(claim, self._classes, self._rules) for claim in claims]

    def find(self, node: NodeView, claims: Sequence[ClaimPlan], timer: Timer = no_limit) -> Found | None:
        """A solution for all claims together, or None; raises AllocationError, also when time is over."""
        if not claims:
            return None
        pools = self._slices.pools(node)
        single = claims[0].single if len(claims) == 1 and not pools.any_invalid else None
        known, solution = (False, None) if single is None else self._first_fit(single, pools, node)
        if not known:
            solution = Search(claims, pools, node, self._allocated, self._rules, timer).run()
        return None if solution is None else Found(claims, solution, node.name, self._rules, self._share_id)

    def _first_fit(
        self, request: RequestPlan, pools: NodePools, node: NodeView
    ) -> tuple[bool, Solution | None]:
        """What the search does when there is one plain device to find: most pods, on every node. False if
        that is not so, and the search must be asked."""
        allocated, releases = self._allocated.devices, self._allocated.releases
        known = pools.starts.get(request.key)
        start = 0
        if known is not None and releases is not None and known.releases == releases():
            # Until a device becomes free, nothing changes for such a request but that its device is taken.
            if known.device is None:
                return True, None
            if known.device.id not in allocated:
                return True, _one(request, known.device)
            start = known.position
        found = None
        position = start
        for position in range(start, len(pools.candidates)):
            device = pools.candidates[position]
            if device.id in allocated or not (device.verdicts.get(request.key) or request.selects(device)):
                continue
            if not device.plain or (device.capacities and device.id in self._allocated.consumed):
                return False, None
            if not device.per_node or device.is_on(node.labels, node.name):
                found = device
                break
        if releases is not None:
            pools.starts[request.key] = Start(releases(), position, found)
        return True, None if found is None else _one(request, found)

    def allocate(self, node: NodeView, claims: Sequence[Mapping[str, Any]]) -> list[Object] | None:
        """One AllocationResult per claim, or None if they do not fit; raises AllocationError."""
        found = self.find(node, self.plan(claims))
        return None if found is None else found.results()


def _one(request: RequestPlan, device: Device) -> Solution:
    return [ClaimSolution([Choice(request, device)], [request])]
