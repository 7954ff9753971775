"""Allocates devices for a pod's claims on one node."""

from collections.abc import Callable, Set
from math import inf

from kubeskew.apimachinery.clock import Clock
from kubeskew.scheduler.allocator.allocated_state import DeviceID
from kubeskew.scheduler.allocator.errors import AllocationError, NodeAllocationError, SearchTimeout
from kubeskew.scheduler.cooperative import give_way
from kubeskew.scheduler.features.dynamic_resources import DynamicResourcesFeatures
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_signatures import PodSignatures
from kubeskew.scheduler.framework.status import SUCCESS, Status, failed, unresolvable
from kubeskew.scheduler.plugins.dynamicresources.state import ExtendedResourcePlan, NodeChoice, PodState

_CANNOT_ALLOCATE = unresolvable("cannot allocate all claims").of("DynamicResources")

_Known = tuple[object, DeviceID | None]  # the allocator's situation then, and the result


class DeviceChooser:
    """Runs the allocator of an attempt, and remembers its answers.

    A node that fits a pod with one plain device fits every pod of its signature, until the device is taken or
    something changes. NodeInfo.memo keeps that; only Reserve runs the allocator again.
    """

    def __init__(self, features: DynamicResourcesFeatures, taken: Set[DeviceID], clock: Clock) -> None:
        """`taken` is a live view of the devices that somebody has."""
        self._features = features
        self._taken = taken
        self._clock = clock
        self._signatures = PodSignatures()

    def signature(self, own: PodState) -> object | None:
        """Returns the signature of a pod that wants one such device and nothing else; None for other pods."""
        usual = own.usual_extended_plan
        plans = own.plans if usual is None else [usual.plan]
        single = plans[0].single if len(plans) == 1 else None
        if single is None or single.capacity or own.pinned or own.lost or (own.extended_claim and own.claims):
            return None
        return self._signatures.of(
            (own.extended_claim.resources if own.extended_claim else (), single.resume_key)
        )

    def known(self, own: PodState, node: NodeInfo) -> Status | None:
        """Returns what the node answered the last such pod, if that still holds."""
        known: _Known | None = node.memo.get(own.signature)
        if known is None or known[0] is not own.allocation_epoch:
            return None
        if known[1] is None:
            return _CANNOT_ALLOCATE
        return None if known[1] in self._taken else SUCCESS

    def choose(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        """Returns, for Filter, whether there are devices for all claims together."""
        status = self._search(own, extended_plan, node)
        if own.signature is not None and extended_plan is own.usual_extended_plan:
            self._remember(own, node, status)
        return status

    @staticmethod
    def _remember(own: PodState, node: NodeInfo, status: Status) -> None:
        if status is _CANNOT_ALLOCATE:
            node.memo[own.signature] = (own.allocation_epoch, None)
        choice = own.choices.get(node.name)
        if status is SUCCESS and choice is not None and choice.found is not None:
            (device,) = (chosen.device for chosen in choice.found.solution[0].choices)
            if device.plain:
                node.memo[own.signature] = (own.allocation_epoch, device.id)

    def chosen(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        """Chooses, for Reserve, as `choose` did, and keeps the choice in the state."""
        return SUCCESS if node.name in own.choices else self._search(own, extended_plan, node)

    def _search(self, own: PodState, extended_plan: ExtendedResourcePlan | None, node: NodeInfo) -> Status:
        plans = own.plans if extended_plan is None else [*own.plans, extended_plan.plan]
        found = None
        if plans:
            try:
                found = own.allocator.find(node, plans, self._timer)
            except SearchTimeout:
                return self._timed_out(node.name)
            except NodeAllocationError as error:
                return unresolvable(str(error))
            except AllocationError as error:
                return failed(error)
            if found is None:
                return _CANNOT_ALLOCATE
        own.choices[node.name] = NodeChoice(found, extended_plan)
        return SUCCESS

    def _timed_out(self, node: str) -> Status:
        text = "timed out trying to allocate devices"
        return failed(f"node {node}: {text}") if self._features.timeout_is_error else unresolvable(text)

    def _timer(self) -> Callable[[], bool]:
        seconds = self._features.filter_seconds
        end = inf if seconds is None else self._clock.monotonic() + seconds

        def is_over() -> bool:
            now = self._clock.monotonic()
            give_way(now)
            return now >= end

        return is_over
