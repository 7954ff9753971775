"""A validated set of plugins, sorted by extension point: what the cycle runs."""

# Protocols are looked up by type, which mypy takes for instantiation.
# mypy: disable-error-code="type-abstract"

from collections.abc import Mapping, Sequence
from typing import TypeVar

from scheduler.framework import interfaces
from scheduler.framework.cycle_state import CycleState
from scheduler.framework.events import EventHint
from scheduler.framework.interfaces import Plugin, PostFilterResult, PreFilterResult
from scheduler.framework.status import SUCCESS, Code, Status, failed
from scheduler.nodes import NodeInfo
from scheduler.pods import PodInfo

P = TypeVar("P")

DEFAULT_SCHEDULER_NAME = "default-scheduler"


class ProfileError(ValueError):
    """The plugins do not make a scheduler."""


class Profile:
    """The plugins of one scheduler name, in the order in which they are asked."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        weights: Mapping[str, int] | None = None,
        name: str = DEFAULT_SCHEDULER_NAME,
    ) -> None:
        self.name = name
        self.plugins = tuple(plugins)
        self._weights = dict(weights or {})
        self._validate()
        self.queue_sort = self._of(interfaces.QueueSort)[0]
        self.pre_enqueue = self._of(interfaces.PreEnqueue)
        self.pre_filters = self._of(interfaces.PreFilter)
        self.filters = self._of(interfaces.Filter)
        self.post_filters = self._of(interfaces.PostFilter)
        self.pre_scores = self._of(interfaces.PreScore)
        self.scores = self._of(interfaces.Score)
        self.reserves = self._of(interfaces.Reserve)
        self.permits = self._of(interfaces.Permit)
        self.pre_binds = self._of(interfaces.PreBind)
        self.binds = self._of(interfaces.Bind)
        self.post_binds = self._of(interfaces.PostBind)
        self.hints: Mapping[str, Sequence[EventHint]] = {
            plugin.name: tuple(plugin.events_to_register()) for plugin in self._of(interfaces.Enqueue)
        }

    def _of(self, kind: type[P]) -> tuple[P, ...]:
        return tuple(plugin for plugin in self.plugins if isinstance(plugin, kind))

    def _validate(self) -> None:
        names = [plugin.name for plugin in self.plugins]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ProfileError(f"plugin {sorted(repeated)[0]!r} already registered as {self.name!r}")
        sorts = self._of(interfaces.QueueSort)
        if len(sorts) != 1:
            raise ProfileError(
                f"only one queue sort plugin required for profile with name {self.name!r}, "
                f"but got {len(sorts)}"
            )
        if not self._of(interfaces.Bind):
            raise ProfileError(
                f"at least one bind plugin is needed for profile with scheduler name {self.name!r}"
            )
        unknown = set(self._weights) - {plugin.name for plugin in self._of(interfaces.Score)}
        if unknown:
            raise ProfileError(f"weight for {sorted(unknown)[0]!r}, which does not score")

    # -- filtering

    def run_pre_filters(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult, tuple[str, ...]]:
        """The common result, and the plugins that limited the nodes."""
        allowed: frozenset[str] | None = None
        limiting: list[str] = []
        for plugin in self.pre_filters:
            result = plugin.pre_filter(state, pod, nodes)
            if result.status.is_skip:
                state.skip_filter.add(plugin.name)
                continue
            if not result.status.is_success:
                status = result.status.of(plugin.name)
                if not status.is_rejected:
                    message = f'running PreFilter plugin "{plugin.name}": {status.message}'
                    status = Status(Code.ERROR, (message,), plugin.name)
                return PreFilterResult(status), ()
            if result.nodes is not None:
                limiting.append(plugin.name)
                allowed = result.nodes if allowed is None else allowed & result.nodes
        return PreFilterResult(SUCCESS, allowed), tuple(limiting)

    def active_filters(self, state: CycleState) -> list[interfaces.Filter]:
        return [plugin for plugin in self.filters if plugin.name not in state.skip_filter]

    async def run_post_filters(
        self, state: CycleState, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]
    ) -> PostFilterResult:
        """Ask in order until one helps; otherwise all their reasons together."""
        reasons: list[str] = []
        nominated: str | None = None
        for plugin in self.post_filters:
            result = await plugin.post_filter(state, pod, rejected, nodes)
            status = result.status
            if status.is_success or status.code is Code.UNRESOLVABLE:
                return result
            if not status.is_rejected:
                message = f'running PostFilter plugin "{plugin.name}": {status.message}'
                return PostFilterResult(failed(message))
            nominated = result.nominated_node if result.nominated_node is not None else nominated
            reasons.extend(status.reasons)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons)), nominated)

    # -- scoring

    def run_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int] | Status:
        """The weighted sum per node, or the status of a plugin that failed."""
        for pre in self.pre_scores:
            status = pre.pre_score(state, pod, nodes)
            if status.is_skip:
                state.skip_score.add(pre.name)
            elif not status.is_success:
                return failed(f'running PreScore plugin "{pre.name}": {status.message}')
        totals = dict.fromkeys((node.name for node in nodes), 0)
        for plugin in self.scores:
            if plugin.name in state.skip_score:
                continue
            scores = {node.name: plugin.score(state, pod, node) for node in nodes}
            if isinstance(plugin, interfaces.NormalizeScore):
                plugin.normalize(scores)
            weight = self._weights.get(plugin.name, 1)
            for name, score in scores.items():
                totals[name] += weight * score
        return totals

    # -- binding

    def run_reserves(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.reserves:
            status = plugin.reserve(state, pod, node)
            if not status.is_success:
                return _explained("Reserve", plugin.name, status)
        return SUCCESS

    async def run_unreserves(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in reversed(self.reserves):
            await plugin.unreserve(state, pod, node)

    async def run_permits(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.permits:
            status = await plugin.permit(state, pod, node)
            if not status.is_success:
                return _explained("Permit", plugin.name, status)
        return SUCCESS

    async def run_pre_binds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.pre_binds:
            status = await plugin.pre_bind(state, pod, node)
            if not status.is_success:
                return _explained("PreBind", plugin.name, status)
        return SUCCESS

    async def run_binds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.binds:
            status = await plugin.bind(state, pod, node)
            if status.is_skip:
                continue
            return status if status.is_success else _explained("Bind", plugin.name, status)
        return failed(f"no bind plugin took the pod {pod.key}")

    def run_post_binds(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in self.post_binds:
            plugin.post_bind(state, pod, node)


def _explained(point: str, plugin: str, status: Status) -> Status:
    if status.is_rejected:
        return status.of(plugin)
    return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
