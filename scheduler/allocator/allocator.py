"""The way in: `Allocator(rules, classes, slices, allocated).allocate(node, claims)`."""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from scheduler.allocator.devices import Device, DeviceID
from scheduler.allocator.pools import NodePools, NodeView, SliceIndex, Start
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
        self,
        rules: AllocatorRules,
        classes: ClassLister,
        slices: SliceIndex,
        allocated: Set[DeviceID],
        releases: Callable[[], int] | None = None,
    ) -> None:
        """`releases` counts how often a device left `allocated`; it spares looking at devices again."""
        self._rules = rules
        self._classes = classes
        self._slices = slices
        self._allocated = allocated
        self._releases = releases

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
        known = pools.starts.get(request.key)
        start = 0
        if known is not None and self._releases is not None and known.releases == self._releases():
            # Until a device becomes free, nothing changes for such a request but that its device is taken.
            if known.device is None:
                return None
            if known.device.id not in self._allocated:
                return [[Choice(request, known.device)]]
            start = known.position
        for position in range(start, len(pools.candidates)):
            device = pools.candidates[position]
            if self._can_have(request, device, node):
                self._remember(request, pools, position, device)
                return [[Choice(request, device)]]
        self._remember(request, pools, len(pools.candidates), None)
        return None

    def _remember(self, request: RequestPlan, pools: NodePools, position: int, device: Device | None) -> None:
        if self._releases is not None:
            pools.starts[request.key] = Start(self._releases(), position, device)

    def _can_have(self, request: RequestPlan, device: Device, node: NodeView) -> bool:
        if device.id in self._allocated:
            return False
        if not (device.verdicts.get(request.key) or request.selects(device)) or not device.usable:
            return False
        return not device.per_node or device.is_on(node.labels, node.name)

    def allocate(self, node: NodeView, claims: Sequence[Mapping[str, Any]]) -> list[Object] | None:
        """One AllocationResult per claim, or None if they do not fit; raises AllocationError."""
        found = self.find(node, self.plan(claims))
        return None if found is None else found.results()
