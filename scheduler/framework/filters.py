"""Runs Filter on one node, with the pods that are nominated to it: preemption frees resources for them that
others must not take.

Sources: k8s.io/kubernetes/pkg/scheduler/backend/queue/nominator.go, 1.36;
k8s.io/kubernetes/pkg/scheduler/framework/runtime/framework.go, 1.36.
"""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from kubeskew.apimachinery.clock import Clock
from kubeskew.scheduler.framework.interfaces import CycleState, SignsFilter
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.profile import PodSignatures, Profile, remembered
from kubeskew.scheduler.framework.status import SUCCESS, Code, Status

_Ask = Callable[[CycleState, PodInfo, NodeInfo], Status]
_Steps = Sequence[tuple[str, _Ask]]


class Nominator:
    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._nodes: dict[str, str] = {}  # pod uid → node

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add(self, pod: PodInfo, node: str | None = None) -> None:
        """Nominates the pod to `node`; by default to the node in its status. "" ends the nomination."""
        if node is None:
            node = (pod.pod.get("status") or {}).get("nominatedNodeName") or ""
        self.remove(pod.uid)
        if node:
            self._nodes[pod.uid] = node
            self._by_node.setdefault(node, {})[pod.uid] = pod

    def update(self, old_node: str, pod: PodInfo) -> None:
        """Replaces the pod by a newer version whose old status named `old_node`; a nomination not yet
        written there stays."""
        now = (pod.pod.get("status") or {}).get("nominatedNodeName") or ""
        kept = self._nodes.get(pod.uid) if not now and not old_node else None
        self.add(pod, kept)

    def remove(self, uid: str) -> None:
        node = self._nodes.pop(uid, None)
        if node is not None:
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]

    def node_of(self, uid: str) -> str:
        return self._nodes.get(uid, "")

    def pods_of(self, node: str) -> Collection[PodInfo]:
        return self._by_node.get(node, {}).values()


class Filters(NamedTuple):
    """The filters of one cycle. Nodes keep the first ones' common answer for pods of a signature."""

    signature: object
    first: _Steps
    others: _Steps
    any_promised: bool  # whether any pod is nominated

    @property
    def names(self) -> Sequence[str]:
        return [name for name, _ in (*self.first, *self.others)]


class NodeFilter:
    def __init__(self, profile: Profile, nominator: Nominator, clock: Clock) -> None:
        self._profile = profile
        self._nominator = nominator
        self._clock = clock
        self._signatures = PodSignatures()
        self._signing = {plugin.name: plugin for plugin in profile.filters if isinstance(plugin, SignsFilter)}

    def prepare(self, state: CycleState, pod: PodInfo) -> Filters:
        """Runs once per cycle, before `run`."""
        active = self._profile.active_filters(state)
        first = [*takewhile(lambda each: each.name in self._signing, active)]
        signature = tuple(
            (plugin.name, self._signing[plugin.name].filter_signature(state, pod)) for plugin in first
        )
        steps = [(plugin.name, plugin.filter) for plugin in active]
        return Filters(
            self._signatures.of(signature), steps[: len(first)], steps[len(first) :], bool(self._nominator)
        )

    def timed(self, filters: Filters) -> Filters:
        """Each filter is called again, without the answers that nodes keep, and timed."""
        steps = [(name, self._timed(name, run)) for name, run in (*filters.first, *filters.others)]
        return Filters(None, (), steps, filters.any_promised)

    def run(self, filters: Filters, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """The pod must fit with the promised pods there and, should they never come, without them."""
        if filters.any_promised and (promised := self._promised(pod, node)):
            copy, crowded = state.clone(), node.clone()
            for other in promised:
                self.add_pod(copy, pod, other, crowded)
            status = _run(filters, copy, pod, crowded)
            if not status.is_success:
                return status
        return _run(filters, state, pod, node)

    def _promised(self, pod: PodInfo, node: NodeInfo) -> list[PodInfo]:
        return [
            other
            for other in self._nominator.pods_of(node.name)
            if other.priority >= pod.priority and other.uid != pod.uid
        ]

    # -- a pod more or less

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        """Updates the state as if `other` ran on the node, a clone."""
        node.add_pod(other)
        for plugin in self._profile.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                plugin.add_pod(state, pod, other, node)

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None:
        """Updates the state as if `other` had left the node, a clone."""
        node.remove_pod(other.uid)
        for plugin in self._profile.pre_filter_extensions:
            if plugin.name not in state.skip_filter:
                plugin.remove_pod(state, pod, other, node)

    def _timed(self, name: str, run: _Ask) -> _Ask:
        def timed(state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
            began = self._clock.monotonic()
            status = run(state, pod, node)
            self._profile.observe_plugin(name, "Filter", status, self._clock.monotonic() - began)
            return status

        return timed


def _run(filters: Filters, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
    signature, first, others, _ = filters
    if first:
        status: Status | None = node.memo.get(signature)
        if status is None:
            status = remembered(node, signature, partial(_ask_all, first, state, pod, node))
        if status is not SUCCESS:
            return status
    return _ask_all(others, state, pod, node)


def _ask_all(steps: _Steps, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
    for name, run in steps:
        status = run(state, pod, node)
        if status is SUCCESS or status.is_success:
            continue
        if not status.is_rejected:
            return Status(Code.ERROR, (f'running "{name}" filter plugin: {status.message}',), name)
        return status.of(name)
    return SUCCESS
