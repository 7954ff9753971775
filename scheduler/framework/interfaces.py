"""The interfaces of plugins: one protocol per extension point, and the state that plugins keep from one
extension point to the next. A plugin is a class with a `name` and some of the methods.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, Self, TypeGuard, TypeVar, runtime_checkable

from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Status


@runtime_checkable
class Cloneable(Protocol):
    """A value that adding or removing a pod changes."""

    def clone(self) -> Self: ...


@runtime_checkable
class Forkable(Protocol):
    """A value whose changes can be undone together: those since the last `fork` that has not ended yet."""

    def fork(self) -> None:
        """Begins changes that `revert` undoes and `commit` keeps."""
        ...

    def revert(self) -> None: ...

    def commit(self) -> None: ...


class CycleState:
    """Values by plugin name, and the plugins that have nothing to do in this cycle."""

    __slots__ = ("_values", "recorded", "skip_filter", "skip_score", "stopped_at")

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.stopped_at = ""  # the plugin at which PreFilter ended: those behind it have written nothing
        self.recorded = False  # whether this cycle measures the time of each plugin

    def write(self, plugin: str, value: Any) -> None:
        self._values[plugin] = value

    def clone(self) -> "CycleState":
        """The copy is there to try changes on: values that can be cloned are, the others are shared."""
        copy = CycleState()
        copy._values = {
            name: value.clone() if isinstance(value, Cloneable) else value
            for name, value in self._values.items()
        }
        copy.skip_filter, copy.skip_score = self.skip_filter, self.skip_score
        copy.stopped_at = self.stopped_at
        return copy

    def read(self, plugin: str) -> Any:
        """None if the plugin wrote nothing earlier in this cycle."""
        return self._values.get(plugin)

    def attempt(self) -> "CycleState":
        """Copies the values for one attempt at a pod; what is written to the copy stays in it."""
        copy = CycleState()
        copy._values = {**self._values}
        return copy

    def forkable(self) -> list[Forkable]:
        return [value for value in self._values.values() if isinstance(value, Forkable)]


MAX_NODE_SCORE = 100

P = TypeVar("P", bound="Plugin")


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """`nodes` limits where the pod can go; None is everywhere."""

    status: Status = SUCCESS
    nodes: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """A success may nominate a node for the next attempt; "" clears a nomination, None keeps it."""

    status: Status
    nominated_node: str | None = None


class Plugin(Protocol):
    @property
    def name(self) -> str: ...


def acts(plugin: object, point: type[P]) -> TypeGuard[P]:
    """Looks for the methods of an extension point. `isinstance` does the same, and looks through the protocol
    each time."""
    return all(hasattr(plugin, name) for name in _members(point))


@cache
def _members(point: type[Plugin]) -> tuple[str, ...]:
    protocols = [base for base in point.__mro__ if getattr(base, "_is_protocol", False)]
    return tuple(name for base in protocols for name in vars(base) if not name.startswith("_"))


@runtime_checkable
class PreEnqueue(Plugin, Protocol):
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Anything but success keeps the pod out of the active queue.

        Must be quick.
        """
        ...


@runtime_checkable
class QueueSort(Plugin, Protocol):
    def sort_key(self, pod: PodInfo, enqueued: float) -> tuple[Any, ...]:
        """Pods with smaller keys come first. `enqueued` is a monotonic time."""
        ...


@runtime_checkable
class PreFilter(Plugin, Protocol):
    def pre_filter(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> PreFilterResult:
        """Runs once per attempt. With Skip its filter is not called for this pod."""
        ...


@runtime_checkable
class PreFilterExtensions(Plugin, Protocol):
    """Updates what PreFilter wrote when pods of the nodes are added or removed."""

    def add_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None: ...

    def remove_pod(self, state: CycleState, pod: PodInfo, other: PodInfo, node: NodeInfo) -> None: ...


@runtime_checkable
class Filter(Plugin, Protocol):
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Must change neither the pod nor the node."""
        ...


@runtime_checkable
class SignsFilter(Filter, Protocol):
    def filter_signature(self, state: CycleState, pod: PodInfo) -> Hashable:
        """Comprises all that the filter's answer depends on, besides the node with its pods."""
        ...


@runtime_checkable
class PostFilter(Plugin, Protocol):
    async def post_filter(
        self, state: CycleState, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]
    ) -> PostFilterResult:
        """Runs when no node fits; a success means that a retry may work, and ends the calls."""
        ...


@runtime_checkable
class PreScore(Plugin, Protocol):
    def pre_score(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        """Runs once per attempt with the nodes that fit. With Skip its score is not called."""
        ...


class ScoreError(Exception):
    """A plugin cannot score a node; the text is that of its status."""


@runtime_checkable
class Score(Plugin, Protocol):
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """0 … MAX_NODE_SCORE, unless `normalize` brings the score there. Raises ScoreError."""
        ...


@runtime_checkable
class SignsScore(Score, Protocol):
    def score_signature(self, pod: PodInfo) -> Hashable | None:
        """Comprises all that the score depends on, besides the node with its pods; None if that cannot be
        named."""
        ...


@runtime_checkable
class NormalizeScore(Plugin, Protocol):
    def normalize(self, scores: dict[str, int]) -> None:
        """Brings this plugin's scores, by node name, into 0 … MAX_NODE_SCORE."""
        ...


@runtime_checkable
class NormalizeStatefully(Plugin, Protocol):
    def normalize_with(self, state: CycleState, pod: PodInfo, scores: dict[str, int]) -> None: ...


@runtime_checkable
class Reserve(Plugin, Protocol):
    async def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Reserves in memory what the pod will use on the node; no other pod is tried before this returns."""
        ...

    async def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Undoes `reserve` and the steps after it.

        Also called if reserve failed or was not called; never raises.
        """
        ...


@runtime_checkable
class Permit(Plugin, Protocol):
    async def permit(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Runs before binding; may wait."""
        ...


@runtime_checkable
class PreBind(Plugin, Protocol):
    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Writes what must be stored before the pod is bound."""
        ...


@runtime_checkable
class Bind(Plugin, Protocol):
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Binds the pod; Skip leaves it to the next plugin."""
        ...


@runtime_checkable
class PostBind(Plugin, Protocol):
    async def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Cleans up after a success; never raises."""
        ...


@runtime_checkable
class ClusterAutoscaler(Plugin, Protocol):
    """Simulates what becomes of a plugin's resources when pods are bound or evicted (KEP-4381, draft).

    PreFilter and Filter decide from the simulation if the state has one. They are given copies of the state
    (`CycleState.attempt`), the methods here always the same one.
    """

    def start_simulation(self, state: CycleState) -> Status:
        """Takes a snapshot of all that matters to the plugin, and keeps it in the state, which is empty."""
        ...

    def simulate_bind_pod(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status: ...

    def simulate_evict_pod(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Resources that the pod alone used are free then."""
        ...


@runtime_checkable
class Enqueue(Plugin, Protocol):
    def events_to_register(self) -> Sequence[EventHint]:
        """Events that may help a pod that this plugin rejected."""
        ...
