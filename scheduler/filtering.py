"""Filter on one node, with the pods that were promised it.

Source: k8s.io/kubernetes/pkg/scheduler/framework/runtime/framework.go, 1.36.
"""

from collections.abc import Callable, Sequence

from apimachinery.clock import Clock
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.profile import Profile
from scheduler.framework.status import SUCCESS, Code, Status
from scheduler.nodes import NodeInfo
from scheduler.nominating import Nominator
from scheduler.pods import PodInfo

Filters = Sequence[tuple[str, Callable[[CycleState, PodInfo, NodeInfo], Status]]]


class NodeFilter:
    """Runs a profile's filters."""

    def __init__(self, profile: Profile, nominator: Nominator, clock: Clock) -> None:
        self._profile = profile
        self._nominator = nominator
        self._clock = clock

    def prepare(self, state: CycleState) -> Filters:
        """The filters of this cycle, to be given to `run`."""
        active = self._profile.active_filters(state)
        if not state.recorded:
            return [(plugin.name, plugin.filter) for plugin in active]
        return [(plugin.name, self._timed(plugin.name, plugin.filter)) for plugin in active]

    def run(self, filters: Filters, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Whether the pod fits: with the promised pods there and, should they never come, without them."""
        if self._nominator and (promised := self._promised(pod, node)):
            copy, crowded = state.clone(), node.clone()
            for other in promised:
                self.add_pod(copy, pod, other, crowded)
            status = _run(filters, copy, pod, crowded)
            if not status.is_success:
                return status
        return _run(filters, state, pod, node)

    def _promised(self, pod: PodInfo, node: NodeInfo) -> list[PodInfo]:
        """Pods of the same or a higher priority that the node was promised to."""
        return [
            each
            for each in self._nominator.pods_of(node.name)
            if each.priority >= pod.priority and each.uid != pod.uid
        ]

    # -- a pod more or less

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        """As if `other` ran on the node, a clone."""
        node.add_pod(other)
        for plugin in self._profile.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, other, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        """As if `other` had left the node, a clone."""
        node.remove_pod(other.uid)
        for plugin in self._profile.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, other, node)

    def _timed(
        self, name: str, run: Callable[[CycleState, PodInfo, NodeInfo], Status]
    ) -> Callable[[CycleState, PodInfo, NodeInfo], Status]:
        def timed(state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            began = self._clock.monotonic()
            status = run(state, pod, node)
            self._profile.observe_plugin(name, "Filter", status, self._clock.monotonic() - began)
            return status

        return timed


def _run(filters: Filters, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
    for name, run in filters:
        status = run(state, pod, node)
        if status is SUCCESS or status.is_success:
            continue
        if not status.is_rejected:
            return Status(Code.ERROR, (f'running "{name}" filter plugin: {status.message}',), name)
        return status.of(name)
    return SUCCESS
