"""The allocator's interface: `Allocator(features, classes, slices, allocated).allocate(node, claims)`."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocated_state import AllocatedState
from kubeskew.scheduler.allocator.counters import AvailableCounters
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.first_fit import FirstFit, SearchNeededError
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.requests import ClaimPlan, ClassLister, RequestPlan, plan_claim
from kubeskew.scheduler.allocator.results import allocation_result
from kubeskew.scheduler.allocator.search import Search
from kubeskew.scheduler.allocator.slice_index import SliceIndex
from kubeskew.scheduler.allocator.slices import NodeView
from kubeskew.scheduler.allocator.solution import Solution, Timer, no_limit


class NodeSolution(NamedTuple):
    """A solution on a node, not yet written out."""

    claims: Sequence[ClaimPlan]
    solution: Solution
    node: str
    features: AllocatorFeatures
    share_id: Callable[[], str]

    def results(self) -> list[Object]:
        """Returns one AllocationResult per claim; raises AllocationError."""
        return [
            allocation_result(claim, solution, self.node, self.features, self.share_id)
            for claim, solution in zip(self.claims, self.solution, strict=True)
        ]


class Allocator:
    """Allocates devices that `allocated` leaves, which may change between calls."""

    def __init__(
        self,
        features: AllocatorFeatures,
        classes: ClassLister,
        slices: SliceIndex,
        allocated: AllocatedState,
        share_id: Callable[[], str],
    ) -> None:
        """`share_id` makes the random identifiers of shares."""
        self._features = features
        self._classes = classes
        self._slices = slices
        self._allocated = allocated
        self._share_id = share_id
        self._counters = AvailableCounters(allocated, features, lambda: slices.revision)
        self._first_fit = FirstFit(allocated, self._counters, features)
        self._allocation_epoch = (-1, -1)

    def allocation_epoch(self) -> object:
        """Returns the same object as long as no slice changes and no device becomes free."""
        releases = self._allocated.releases
        now = (self._slices.revision, releases() if releases is not None else 0)
        if now != self._allocation_epoch:
            self._allocation_epoch = now
        return self._allocation_epoch

    def plan(self, claims: Sequence[Mapping[str, Any]]) -> list[ClaimPlan]:
        """Plans the claims, once per pod: the part that does not depend on the node."""
        return [plan_claim(claim, self._classes, self._features) for claim in claims]

    def find(
        self, node: NodeView, claims: Sequence[ClaimPlan], timer: Timer = no_limit
    ) -> NodeSolution | None:
        """Returns a solution for all claims together, or None; raises AllocationError, also when time is
        over."""
        if not claims:
            return None
        pools = self._slices.pools(node)
        fits_first = not (pools.any_invalid or self._features.capacity_by_number)
        single = claims[0].single if len(claims) == 1 and fits_first else None
        solution = self._solve(claims, single, pools, node, timer())
        return (
            None
            if solution is None
            else NodeSolution(claims, solution, node.name, self._features, self._share_id)
        )

    def _solve(
        self,
        claims: Sequence[ClaimPlan],
        single: RequestPlan | None,
        pools: NodePools,
        node: NodeView,
        expired: Callable[[], bool],
    ) -> Solution | None:
        if single is not None:
            try:
                return self._first_fit.find(single, pools, node, expired)
            except SearchNeededError:
                pass
        return Search(claims, pools, node, self._allocated, self._counters, self._features, expired).run()

    def allocate(self, node: NodeView, claims: Sequence[Mapping[str, Any]]) -> list[Object] | None:
        """Returns one AllocationResult per claim, or None if they do not fit; raises AllocationError."""
        found = self.find(node, self.plan(claims))
        return None if found is None else found.results()
