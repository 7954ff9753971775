"""Finds one device for one request without a search, the case of most pods.

The answer is the search's. Until a device becomes free, one that was not available stays so; the next pod
with the same request goes on where the last one ended.
"""

from collections.abc import Callable

from kubeskew.scheduler.allocator.allocated_state import AllocatedState
from kubeskew.scheduler.allocator.candidates import CapacityCheck
from kubeskew.scheduler.allocator.capacity import taken
from kubeskew.scheduler.allocator.counters import AvailableCounters, CounterUsage
from kubeskew.scheduler.allocator.errors import SearchTimeout
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools, SearchPosition
from kubeskew.scheduler.allocator.requests import RequestPlan
from kubeskew.scheduler.allocator.slices import Device, NodeView
from kubeskew.scheduler.allocator.solution import Choice, ClaimSolution, Solution


class SearchNeededError(Exception):
    """First fit does not suffice, because the side effects of the full search matter here."""


class FirstFit:
    """Finds the first device that a request can have."""

    def __init__(
        self, state: AllocatedState, counters: AvailableCounters, features: AllocatorFeatures
    ) -> None:
        self._state = state
        self._counters = counters
        self._partitions = features.gates.partitionable_devices
        self._paid_once = features.counters_taken_once
        self._all_pay = features.shares_without_capacity_pay
        self._shares_overlooked = features.shares_overlooked
        self._capacity = CapacityCheck(state, features)

    def find(
        self, request: RequestPlan, pools: NodePools, node: NodeView, expired: Callable[[], bool]
    ) -> Solution | None:
        """Returns None if there is no such device; raises AllocationError, SearchNeededError."""
        releases = self._state.releases
        start, now = 0, releases() if releases is not None else 0
        known = pools.starts.get(request.resume_key)
        if known is not None and known.releases == now:
            device = known.device
            if device is None:
                return None
            if (
                device.plain
                and not request.capacity
                and self._state.is_free(device.id, shares=self._shares_overlooked or device.shareable)
            ):
                return [ClaimSolution((Choice(request, device),), (request,))]
            start = known.position
        position, found = self._first(request, pools, node, start, expired)
        if releases is not None:
            pools.starts[request.resume_key] = SearchPosition(now, position, found)
        return None if found is None else [ClaimSolution([self._choice(request, found)], [request])]

    def _first(
        self,
        request: RequestPlan,
        pools: NodePools,
        node: NodeView,
        start: int,
        expired: Callable[[], bool],
    ) -> tuple[int, Device | None]:
        allocated, candidates = self._state.devices, pools.candidates
        for position in range(start, len(candidates)):
            device = candidates[position]
            if device.id in allocated or not device.usable:
                continue
            if not self._shares_overlooked and not self._state.is_free(device.id, shares=device.shareable):
                continue
            selected = device.verdicts.get(request.key)
            if selected is None:
                if expired():
                    raise SearchTimeout
                selected = request.selects(device)
            if not selected:
                continue
            if device.per_node and not device.is_on(node.labels, node.name):
                continue
            if device.plain and not request.capacity and device.id not in self._state.consumed:
                return position, device
            if self._can_have(request, device, pools):
                return position, device
        return len(candidates), None

    def _can_have(self, request: RequestPlan, device: Device, pools: NodePools) -> bool:
        if self._capacity.shortage(request, device) is not None:
            return False
        if device.taints and request.untolerated(device) is not None:
            if device.counters and self._partitions:
                raise SearchNeededError
            return False
        if not device.counters:
            return True
        if not self._partitions:
            return False
        if self._paid_once and device.shareable and self._is_shared(device):
            return True
        return CounterUsage(self._counters, pools).take(device) is None

    def _is_shared(self, device: Device) -> bool:
        state = self._state
        return device.id in state.consumed or (device.id in state.shared and not self._all_pay)

    def _choice(self, request: RequestPlan, device: Device) -> Choice:
        if not device.shareable:
            return Choice(request, device)
        return Choice(request, device, taken(request.capacity, device.capacities, self._capacity.rounding))
