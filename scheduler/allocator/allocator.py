"""The allocator's interface: `Allocator(features, classes, slices, allocated).allocate(node, claims)`. It
finds one device for one request without a search, and writes solutions as the `allocation` of a claim's
status.

`FirstFit` answers as the search would. Until a device becomes free, one that was not available stays so; the
next pod with the same request goes on where the last one ended.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.scheduler.allocator.allocated_state import AllocatedState, taken
from kubeskew.scheduler.allocator.claims import AllocationError, SearchTimeout
from kubeskew.scheduler.allocator.counters import AvailableCounters, CounterUsage
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools, SearchPosition, SliceIndex
from kubeskew.scheduler.allocator.requests import (
    CapacityCheck,
    Choice,
    ClaimPlan,
    ClaimSolution,
    ClassLister,
    RequestPlan,
    Solution,
    Timer,
    no_limit,
    plan_claim,
)
from kubeskew.scheduler.allocator.search import Search
from kubeskew.scheduler.allocator.slices import Device, NodeView


class SearchNeededError(Exception):
    """First fit does not suffice, because the side effects of the full search matter here."""


class FirstFit:
    """Serves a single request for one device without a search."""

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
        """None means that no device can serve the request; raises AllocationError, SearchNeededError."""
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


def allocation_result(
    plan: ClaimPlan,
    solution: ClaimSolution,
    node: str,
    features: AllocatorFeatures,
    share_id: Callable[[], str],
) -> Object:
    """Raises AllocationError if the devices' node selectors cannot be combined."""
    devices: Object = {}
    if solution.choices:
        devices["results"] = [_device_result(choice, features, share_id) for choice in solution.choices]
    config = [*_class_config(solution.options, features), *_claim_config(plan, solution.options, features)]
    if features.unnamed_config:
        config = [_without_all_names(entry, solution.options) for entry in config]
    if config:
        devices["config"] = config
    result: Object = {"devices": devices}
    try:
        selector = _node_selector(solution.choices, node, features)
    except AllocationError as error:
        name = plan.claim["metadata"]["name"]
        raise AllocationError(f"create NodeSelector for claim {name}: {error}") from None
    if selector is not None:
        result["nodeSelector"] = selector
    return result


def _device_result(choice: Choice, features: AllocatorFeatures, share_id: Callable[[], str]) -> Object:
    request, gates = choice.request, features.gates
    driver, pool, device = choice.device.id
    spec = choice.device.spec
    result: Object = {"request": request.name, "driver": driver, "pool": pool, "device": device}
    if request.admin_access:
        result["adminAccess"] = True
    if request.tolerations and features.tolerations_in_results:
        result["tolerations"] = list(request.tolerations)
    if gates.binding_conditions:
        for key in ("bindingConditions", "bindingFailureConditions"):
            if spec.get(key):
                result[key] = spec[key]
    if choice.taken is not None:
        result["shareID"] = share_id()
        if choice.taken:
            result["consumedCapacity"] = {name: str(amount) for name, amount in choice.taken.items()}
    skipped = choice.device.slice.spec.get("skipNodeOperations")
    if skipped and gates.optional_node_operations:
        result["skipNodeOperations"] = skipped
    return result


def _class_config(options: Sequence[RequestPlan], features: AllocatorFeatures) -> list[Object]:
    entries: list[Object] = []
    done: set[str] = set()
    for option in options:
        name = option.device_class["metadata"]["name"]
        if features.class_config_once and name in done:
            continue
        done.add(name)
        same = [option.name for option in options if option.device_class["metadata"]["name"] == name]
        for config in (option.device_class.get("spec") or {}).get("config") or ():
            entry: Object = {"source": "FromClass", **config}
            if features.class_config_once:
                entry["requests"] = same
            entries.append(entry)
    return entries


def _claim_config(
    plan: ClaimPlan, options: Sequence[RequestPlan], features: AllocatorFeatures
) -> list[Object]:
    entries: list[Object] = []
    for config in (plan.claim["spec"].get("devices") or {}).get("config") or ():
        named = config.get("requests") or []
        copies = sum(1 for option in options if option.base in named or option.name in named) if named else 1
        if not features.repeated_config:
            copies = min(copies, 1)
        entries.extend({"source": "FromClaim", **config} for _ in range(copies))
    return entries


def _without_all_names(entry: Object, options: Sequence[RequestPlan]) -> Object:
    """Removes the names of requests if all are named: no names mean all."""
    named = entry.get("requests") or ()
    if not all(option.base in named or option.name in named for option in options):
        return entry
    return {key: value for key, value in entry.items() if key != "requests"}


def _node_selector(choices: Sequence[Choice], node: str, features: AllocatorFeatures) -> Object | None:
    """The devices can be used together on the nodes that it selects; None selects all nodes."""
    fields: list[Mapping[str, Any]] = []
    expressions: list[Mapping[str, Any]] = []
    for choice in choices:
        spec = choice.device.slice.spec
        selection = choice.device.spec if spec.get("perDeviceNodeSelection") else spec
        binds = features.knows_sharing and choice.device.spec.get("bindsToNode")
        if binds or selection.get("nodeName") is not None:
            only = {"key": "metadata.name", "operator": "In", "values": [node]}
            return {"nodeSelectorTerms": [{"matchFields": [only]}]}
        selector = selection.get("nodeSelector")
        terms = (selector or {}).get("nodeSelectorTerms") or []
        if len(terms) > 1:
            raise AllocationError(f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms")
        for term in terms:
            _merge(fields, term.get("matchFields") or ())
            _merge(expressions, term.get("matchExpressions") or ())
    term = {"matchExpressions": expressions, "matchFields": fields}
    present = {key: value for key, value in term.items() if value}
    return {"nodeSelectorTerms": [present]} if present else None


def _merge(requirements: list[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> None:
    for requirement in more:
        if not any(_same(requirement, other) for other in requirements):
            requirements.append(requirement)


def _same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    if (left.get("key"), left.get("operator")) != (right.get("key"), right.get("operator")):
        return False
    return set(left.get("values") or ()) == set(right.get("values") or ())


class NodeSolution(NamedTuple):
    """A solution on a node, not yet written out."""

    claims: Sequence[ClaimPlan]
    solution: Solution
    node: str
    features: AllocatorFeatures
    share_id: Callable[[], str]

    def results(self) -> list[Object]:
        """One AllocationResult per claim, in order; raises AllocationError."""
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
        self._features = features
        self._classes = classes
        self._slices = slices
        self._allocated = allocated
        self._share_id = share_id
        self._counters = AvailableCounters(allocated, features, lambda: slices.revision)
        self._first_fit = FirstFit(allocated, self._counters, features)
        self._allocation_epoch = (-1, -1)

    def allocation_epoch(self) -> object:
        """The object stays the same as long as no slice changes and no device becomes free."""
        releases = self._allocated.releases
        now = (self._slices.revision, releases() if releases is not None else 0)
        if now != self._allocation_epoch:
            self._allocation_epoch = now
        return self._allocation_epoch

    def plan(self, claims: Sequence[Mapping[str, Any]]) -> list[ClaimPlan]:
        """Plans do not depend on the node, so one call per pod is enough."""
        return [plan_claim(claim, self._classes, self._features) for claim in claims]

    def find(
        self, node: NodeView, claims: Sequence[ClaimPlan], timer: Timer = no_limit
    ) -> NodeSolution | None:
        """All claims are solved together; None means that they do not fit. Raises AllocationError, also when
        time is over."""
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
        """One AllocationResult per claim, or None if they do not fit; raises AllocationError."""
        found = self.find(node, self.plan(claims))
        return None if found is None else found.results()
