"""Devices for a pod's claims on one node."""

from collections.abc import Callable, Sequence, Set

from apimachinery.clock import Clock
from scheduler.allocator.allocated_state import DeviceID
from scheduler.allocator.allocator import Allocator
from scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from scheduler.allocator.requests import ClaimPlan, RequestPlan
from scheduler.dynamic_rules import DynamicRules
from scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from scheduler.nodes import NodeInfo
from scheduler.plugins.dynamic_state import NodeChoice, PodState, SpecialPlan

_CANNOT_ALLOCATE = unresolvable("cannot allocate all claims").of("DynamicResources")

_Known = tuple[object, DeviceID | None]  # the situation in which it was found, and what was


def _never() -> bool:
    return False


class DeviceChooser:
    """Asks the allocator, and remembers.

    What a node gives for one plain request, it gives to every pod that asks the same, until somebody has
    the device or something changes: NodeInfo.memo knows it, and only Reserve asks the allocator again.
    """

    def __init__(self, rules: DynamicRules, allocator: Allocator, taken: Set[DeviceID], clock: Clock) -> None:
        """`taken` is a live view of the devices that somebody has."""
        self._rules = rules
        self._allocator = allocator
        self._taken = taken
        self._clock = clock

    def choose(self, own: PodState, special: SpecialPlan | None, node: NodeInfo) -> Status:
        """For Filter: whether there are devices for all claims together."""
        plans: Sequence[ClaimPlan] = own.plans if special is None else [*own.plans, special.plan]
        single = plans[0].single if len(plans) == 1 else None
        if single is None or single.capacity:
            return self._search(own, plans, special, node)
        known: _Known | None = node.memo.get(single.resume_key)
        if known is not None and known[0] is own.situation:
            if known[1] is None:
                return _CANNOT_ALLOCATE
            if known[1] not in self._taken:
                return SUCCESS
        status = self._search(own, plans, special, node)
        self._remember(own, single, node, status)
        return status

    @staticmethod
    def _remember(own: PodState, single: RequestPlan, node: NodeInfo, status: Status) -> None:
        if status is _CANNOT_ALLOCATE:
            node.memo[single.resume_key] = (own.situation, None)
        choice = own.choices.get(node.name)
        if status is SUCCESS and choice is not None and choice.found is not None:
            (device,) = (each.device for each in choice.found.solution[0].choices)
            if device.plain:
                node.memo[single.resume_key] = (own.situation, device.id)

    def chosen(self, own: PodState, special: SpecialPlan | None, node: NodeInfo) -> Status:
        """For Reserve: the same as `choose`, and the choice is in the state afterwards."""
        if node.name in own.choices:
            return SUCCESS
        plans = own.plans if special is None else [*own.plans, special.plan]
        return self._search(own, plans, special, node)

    def _search(
        self, own: PodState, plans: Sequence[ClaimPlan], special: SpecialPlan | None, node: NodeInfo
    ) -> Status:
        found = None
        if plans:
            try:
                found = self._allocator.find(node, plans, self._timer)
            except SearchTimeout:
                return self._timed_out(node.name)
            except NodeAllocationError as error:
                return unresolvable(str(error))
            except AllocationError as error:
                return failed(error)
            if found is None:
                return _CANNOT_ALLOCATE
        own.choices[node.name] = NodeChoice(found, special)
        return SUCCESS

    def _timed_out(self, node: str) -> Status:
        text = "timed out trying to allocate devices"
        return failed(f"node {node}: {text}") if self._rules.timeout_is_error else unresolvable(text)

    def _timer(self) -> Callable[[], bool]:
        if self._rules.filter_seconds is None:
            return _never
        end = self._clock.monotonic() + self._rules.filter_seconds
        return lambda: self._clock.monotonic() >= end
