"""The way in: `Allocator(rules, classes, slices, allocated).allocate(node, claims)`."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, NamedTuple

from scheduler.allocator.devices import DeviceID
from scheduler.allocator.pools import NodePools, NodeView, SliceIndex
from scheduler.allocator.requests import ClaimPlan, ClassLister, RequestPlan, plan_claim
from scheduler.allocator.results import allocation_result
from scheduler.allocator.rules import AllocatorRules
from scheduler.allocator.search import Choice, Search, Solution, Timer, no_limit

Object = dict[str, Any]


class Found(NamedTuple):
    """A solution on a node, not yet written out."""

    claims: Sequence[ClaimPlan]
    solution: Solution
    node: str
    rules: AllocatorRules

    def results(self) -> list[Object]:
        """One AllocationResult per claim; raises AllocationError."""
        return [
            allocation_result(claim, choices, self.node, self.rules)
            for claim, choices in zip(self.claims, self.solution, strict=True)
        ]


class Allocator:
    """Allocates devices that are not in `allocated`, which may change between calls."""

    def __init__(
        self, rules: AllocatorRules, classes: ClassLister, slices: SliceIndex, allocated: Set[DeviceID]
    ) -> None:
        self._rules = rules
        self._classes = classes
        self._slices = slices
        self._allocated = allocated

    def plan(self, claims: Sequence[Mapping[str, Any]]) -> list[ClaimPlan]:
        """What does not depend on the node: once per pod."""
        return [plan_claim(claim, self._classes, self._rules) for claim in claims]

    def find(self, node: NodeView, claims: Sequence[ClaimPlan], timer: Timer = no_limit) -> Found | None:
        """A solution for all claims together, or None; raises AllocationError, also when time is over."""
        if not claims:
            return None
        pools = self._slices.pools(node)
        single = claims[0].single if len(claims) == 1 else None
        if single is not None and not pools.any_invalid:
            solution = self._first_fit(single, pools, node)
        else:
            solution = Search(claims, pools, node, self._allocated, self._rules, timer).run()
        return None if solution is None else Found(claims, solution, node.name, self._rules)

    def _first_fit(self, request: RequestPlan, pools: NodePools, node: NodeView) -> Solution | None:
        """What the search does when there is one device to find: most pods, on every node."""
        allocated, key = self._allocated, request.key
        for device in pools.candidates:
            if device.id in allocated or not (device.verdicts.get(key) or request.selects(device)):
                continue
            if device.usable and (not device.per_node or device.is_on(node.labels, node.name)):
                return [[Choice(request, device)]]
        return None

    def allocate(self, node: NodeView, claims: Sequence[Mapping[str, Any]]) -> list[Object] | None:
        """One AllocationResult per claim, or None if they do not fit; raises AllocationError."""
        found = self.find(node, self.plan(claims))
        return None if found is None else found.results()
