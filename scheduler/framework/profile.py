"""A validated set of plugins, sorted by extension point, which the cycle runs, and their answers for pods of
one signature, which hold until a node changes.

Upstream has the same idea for batches of pods (SignPod, KEP-5598, 1.35).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kubeskew.scheduler.framework import interfaces
from kubeskew.scheduler.framework.events import EventHint
from kubeskew.scheduler.framework.interfaces import CycleState, Plugin, PostFilterResult, PreFilterResult
from kubeskew.scheduler.framework.node_info import NodeInfo
from kubeskew.scheduler.framework.pod_info import PodInfo
from kubeskew.scheduler.framework.status import SUCCESS, Code, Status, failed

T = TypeVar("T")

_MOST_SIGNATURES = 1000  # at a time
_MOST_ANSWERS = 1000  # answers that a node keeps
# Protocols are looked up by type, which mypy takes for instantiation.
# mypy: disable-error-code="type-abstract"


P = TypeVar("P", bound=Plugin)
R = TypeVar("R")

DEFAULT_SCHEDULER_NAME = "default-scheduler"

# Called with the time of a plugin: plugin, extension point, status, seconds.
ObservePlugin = Callable[[str, str, Status, float], None]
CountEvaluations = Callable[[str, str, int], None]  # plugin, extension point, number of calls


class PodSignatures:
    """Holds one object for all equal signatures: a node's answers are found by identity, which is cheaper."""

    def __init__(self) -> None:
        self._known: dict[Hashable, object] = {}

    def of(self, signature: Hashable) -> object:
        known = self._known.get(signature)
        if known is None:
            if len(self._known) >= _MOST_SIGNATURES:
                self._known.clear()
            known = self._known[signature] = object()
        return known


def remembered(node: NodeInfo, signature: object, ask: Callable[[], T]) -> T:
    """Calls `ask` only if the node has changed since it answered for a pod of the signature."""
    found: T | None = node.memo.get(signature)
    if found is None:
        if len(node.memo) >= _MOST_ANSWERS:
            node.memo.clear()
        found = node.memo[signature] = ask()
    return found


class ProfileError(ValueError):
    pass


class Profile:
    """The plugins of one scheduler name, in the order in which they are asked."""

    def __init__(
        self,
        plugins: Sequence[Plugin],
        weights: Mapping[str, int] | None = None,
        name: str = DEFAULT_SCHEDULER_NAME,
        points: Mapping[str, Sequence[str]] | None = None,
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        """`points` lists the plugins of an extension point (`preFilter`) in order; without an entry, all
        that can act there."""
        self.name = name
        self.plugins = tuple(plugins)
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self._weights = dict(weights or {})
        self._points = points or {}
        self.observe_plugin: ObservePlugin = lambda *_: None
        self.count_evaluations: CountEvaluations = lambda *_: None
        self.monotonic: Callable[[], float] = lambda: 0.0
        self._validate()
        self.queue_sort = self._at("queueSort", interfaces.QueueSort)[0]
        self.pre_enqueue = self._at("preEnqueue", interfaces.PreEnqueue)
        self.pre_filters = self._at("preFilter", interfaces.PreFilter)
        self.pre_filter_extensions = self._at("preFilter", interfaces.PreFilterExtensions)
        self.filters = self._at("filter", interfaces.Filter)
        self.post_filters = self._at("postFilter", interfaces.PostFilter)
        self.pre_scores = self._at("preScore", interfaces.PreScore)
        self.scores = self._at("score", interfaces.Score)
        self._scorers = [
            (
                plugin,
                plugin if interfaces.acts(plugin, interfaces.NormalizeScore) else None,
                plugin if interfaces.acts(plugin, interfaces.NormalizeStatefully) else None,
                plugin if interfaces.acts(plugin, interfaces.SignsScore) else None,
            )
            for plugin in self.scores
        ]
        self._signatures = PodSignatures()
        self.reserves = self._at("reserve", interfaces.Reserve)
        self.permits = self._at("permit", interfaces.Permit)
        self.pre_binds = self._at("preBind", interfaces.PreBind)
        self.binds = self._at("bind", interfaces.Bind)
        self.post_binds = self._at("postBind", interfaces.PostBind)
        self.autoscaled = tuple(
            each for each in self.plugins if interfaces.acts(each, interfaces.ClusterAutoscaler)
        )
        self.hints: Mapping[str, Sequence[EventHint]] = {
            plugin.name: tuple(plugin.events_to_register())
            for plugin in self.plugins
            if interfaces.acts(plugin, interfaces.Enqueue)
        }

    def _at(self, point: str, kind: type[P]) -> tuple[P, ...]:
        order = self._points.get(point)
        if order is None:
            return tuple(plugin for plugin in self.plugins if interfaces.acts(plugin, kind))
        by_name = {plugin.name: plugin for plugin in self.plugins}
        return tuple(plugin for name in order if interfaces.acts(plugin := by_name[name], kind))

    def _validate(self) -> None:
        names = [plugin.name for plugin in self.plugins]
        repeated = {name for name in names if names.count(name) > 1}
        if repeated:
            raise ProfileError(f"plugin {sorted(repeated)[0]!r} already registered as {self.name!r}")
        sorts = self._at("queueSort", interfaces.QueueSort)
        if len(sorts) != 1:
            raise ProfileError(
                f"only one queue sort plugin required for profile with name {self.name!r}, "
                f"but got {len(sorts)}"
            )
        if not self._at("bind", interfaces.Bind):
            raise ProfileError(
                f"at least one bind plugin is needed for profile with scheduler name {self.name!r}"
            )
        unknown = set(self._weights) - {plugin.name for plugin in self._at("score", interfaces.Score)}
        if unknown:
            raise ProfileError(f"weight for {sorted(unknown)[0]!r}, which does not score")

    # -- time

    def _timed(self, state: CycleState, plugin: str, point: str, run: Callable[..., R], *args: Any) -> R:
        if not state.recorded:
            return run(state, *args)
        began = self.monotonic()
        result = run(state, *args)
        self._record(plugin, point, result, began)
        return result

    def _record(self, plugin: str, point: str, result: object, began: float) -> None:
        status = result if isinstance(result, Status) else getattr(result, "status", SUCCESS)
        self.observe_plugin(plugin, point, status, self.monotonic() - began)

    # -- filtering

    def run_pre_filters(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> tuple[PreFilterResult, tuple[str, ...]]:
        """Combines the plugins' results; the second part names the plugins that limited the nodes."""
        allowed: frozenset[str] | None = None
        limiting: list[str] = []
        for plugin in self.pre_filters:
            result = self._timed(state, plugin.name, "PreFilter", plugin.pre_filter, pod, nodes)
            if result.status.is_skip:
                state.skip_filter.add(plugin.name)
                continue
            self.count_evaluations(plugin.name, "PreFilter", 1)
            if not result.status.is_success:
                status = result.status.of(plugin.name)
                if not status.is_rejected:
                    message = f'running PreFilter plugin "{plugin.name}": {status.message}'
                    status = Status(Code.ERROR, (message,), plugin.name)
                return PreFilterResult(status), ()
            if result.nodes is not None:
                limiting.append(plugin.name)
                allowed = result.nodes if allowed is None else allowed & result.nodes
                if not allowed:
                    return PreFilterResult(_nowhere(limiting)), ()
        return PreFilterResult(SUCCESS, allowed), tuple(limiting)

    def active_filters(self, state: CycleState) -> list[interfaces.Filter]:
        return [plugin for plugin in self.filters if plugin.name not in state.skip_filter]

    async def run_post_filters(
        self, state: CycleState, pod: PodInfo, rejected: Mapping[str, Status], nodes: Sequence[NodeInfo]
    ) -> PostFilterResult:
        """Calls the plugins in order until one helps; otherwise the result has all their reasons."""
        reasons: list[str] = []
        nominated: str | None = None
        for plugin in self.post_filters:
            began = self.monotonic()
            result = await plugin.post_filter(state, pod, rejected, nodes)
            if state.recorded:
                self._record(plugin.name, "PostFilter", result, began)
            status = result.status
            if status.is_success or status.code is Code.UNRESOLVABLE:
                return result
            if not status.is_rejected:
                return PostFilterResult(failed(status.message))
            nominated = result.nominated_node if result.nominated_node is not None else nominated
            reasons.extend(status.reasons)
        return PostFilterResult(Status(Code.UNSCHEDULABLE, tuple(reasons)), nominated)

    # -- scoring

    def run_pre_scores(self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Status:
        for plugin in self.pre_scores:
            status = self._timed(state, plugin.name, "PreScore", plugin.pre_score, pod, nodes)
            if status.is_skip:
                state.skip_score.add(plugin.name)
                continue
            self.count_evaluations(plugin.name, "PreScore", 1)
            if not status.is_success:
                return failed(f'running PreScore plugin "{plugin.name}": {status.message}')
        return SUCCESS

    def run_scores(
        self, state: CycleState, pod: PodInfo, nodes: Sequence[NodeInfo]
    ) -> dict[str, int] | Status:
        """Weighted sums by node, or the status of a plugin that fails."""
        totals: dict[str, int] = {}
        for plugin, normalize, normalize_with, signing in self._scorers:
            if plugin.name in state.skip_score:
                continue
            began = self.monotonic()
            signature = signing.score_signature(pod) if signing is not None else None
            try:
                if signature is None:
                    scores = {node.name: plugin.score(state, pod, node) for node in nodes}
                else:
                    scores = self._remembered(plugin, signature, state, pod, nodes)
            except interfaces.ScoreError as error:
                return failed(f'running Score plugins: plugin "{plugin.name}" failed with: {error}')
            if normalize is not None:
                normalize.normalize(scores)
            elif normalize_with is not None:
                normalize_with.normalize_with(state, pod, scores)
            self.count_evaluations(plugin.name, "Score", len(nodes))
            if state.recorded:
                self._record(plugin.name, "Score", SUCCESS, began)
            weight = self._weights.get(plugin.name, 1)
            if not totals and weight == 1:
                totals = scores
                continue
            for name, score in scores.items():
                totals[name] = totals.get(name, 0) + weight * score
        return totals or dict.fromkeys((node.name for node in nodes), 0)

    def _remembered(
        self,
        plugin: interfaces.Score,
        signature: Hashable,
        state: CycleState,
        pod: PodInfo,
        nodes: Sequence[NodeInfo],
    ) -> dict[str, int]:
        """Calls the plugin only for nodes that have changed since they scored a pod of the signature."""
        memo_key = self._signatures.of((plugin.name, signature))
        scores: dict[str, int] = {}
        for node in nodes:
            known: int | None = node.memo.get(memo_key)
            if known is None:
                known = remembered(node, memo_key, partial(plugin.score, state, pod, node))
            scores[node.name] = known
        return scores

    # -- binding

    async def run_reserves(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.reserves:
            began = self.monotonic() if state.recorded else 0.0
            status = await plugin.reserve(state, pod, node)
            if state.recorded:
                self._record(plugin.name, "Reserve", status, began)
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
            began = self.monotonic()
            status = await plugin.pre_bind(state, pod, node)
            if state.recorded:
                self._record(plugin.name, "PreBind", status, began)
            if not status.is_success:
                return _explained("PreBind", plugin.name, status)
        return SUCCESS

    async def run_binds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        for plugin in self.binds:
            began = self.monotonic()
            status = await plugin.bind(state, pod, node)
            if state.recorded:
                self._record(plugin.name, "Bind", status, began)
            if status.is_skip:
                continue
            return status if status.is_success else _explained("Bind", plugin.name, status)
        return failed(f"no bind plugin took the pod {pod.key}")

    async def run_post_binds(self, state: CycleState, pod: PodInfo, node: str) -> None:
        for plugin in self.post_binds:
            await plugin.post_bind(state, pod, node)


def _nowhere(limiting: Sequence[str]) -> Status:
    reason = f"node(s) didn't satisfy plugin(s) [{' '.join(limiting)}] simultaneously"
    if len(limiting) == 1:
        reason = f"node(s) didn't satisfy plugin {limiting[0]}"
    return Status(Code.UNRESOLVABLE, (reason,), limiting[-1])


def _explained(point: str, plugin: str, status: Status) -> Status:
    if status.is_rejected:
        return status.of(plugin)
    return Status(Code.ERROR, (f'running {point} plugin "{plugin}": {status.message}',), plugin)
