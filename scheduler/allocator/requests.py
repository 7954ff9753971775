"""Prepares the requests of claims for a search: first what does not depend on the node, then the candidates
on a node; and the form of the solution.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from kubeskew.apimachinery.cel.devices import Selector, compile_selector
from kubeskew.apimachinery.cel.errors import CELError, CompileError
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.nodes import is_tolerated
from kubeskew.scheduler.allocator.allocated_state import (
    AllocatedState,
    Amounts,
    CapacityError,
    DeviceID,
    Rounding,
    refusal,
)
from kubeskew.scheduler.allocator.claims import AllocationError, NodeAllocationError, SearchTimeout
from kubeskew.scheduler.allocator.constraints import Constraint, ConstraintState
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.pools import NodePools
from kubeskew.scheduler.allocator.slices import Device, NodeView

MAX_RESULTS = 32  # resource.k8s.io AllocationResultsMaxSize
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)
Timer = Callable[[], Callable[[], bool]]  # begins a search; the result says whether its time is over


class ClassLister(Protocol):
    def device_class(self, name: str) -> ObjectView:
        """Raises LookupError with the text that users see."""
        ...


@dataclass(frozen=True, slots=True)
class SelectorList:
    """Compiled selectors of one origin; `owner` begins the text of their errors."""

    owner: str
    selectors: tuple[Selector, ...]
    device_in_errors: bool

    def hold_for(self, device: Device) -> bool:
        """Raises AllocationError if a selector does not compile or fails."""
        return self.refusing(device) is None

    def refusing(self, device: Device) -> int | None:
        """Index of the first selector that does not hold; None if all hold."""
        for index, selector in enumerate(self.selectors):
            try:
                if not device.meets(selector):
                    return index
            except CELError as error:
                raise self._error(index, device, error) from None
        return None

    def _error(self, index: int, device: Device, error: CELError) -> AllocationError:
        if isinstance(error, CompileError):
            return AllocationError(f"{self.owner}: selector #{index}: CEL compile error: {error}")
        where = f" on device {device.id}" if self.device_in_errors else ""
        hint = _HINT if self.device_in_errors and "no such key:" in str(error) else ""
        return AllocationError(f"{self.owner}: selector #{index}{where}: CEL runtime error: {error}{hint}")


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A request for devices of one class, or one alternative of it."""

    claim: str
    own_name: str
    parent: str  # the request that has the alternative; empty for a request itself
    device_class: ObjectView
    class_selectors: SelectorList
    selectors: SelectorList
    count: int | None  # None for all devices
    admin_access: bool
    tolerations: Sequence[ObjectView]
    capacity: Amounts  # requested capacity
    key: object  # equal for requests with the same selectors: devices keep verdicts under it
    resume_key: object  # equal for requests that can have the same devices

    @property
    def base(self) -> str:
        return self.parent or self.own_name

    @property
    def name(self) -> str:
        """Results use this name: `request/alternative` for an alternative."""
        return f"{self.parent}/{self.own_name}" if self.parent else self.own_name

    def selects(self, device: Device) -> bool:
        """Class and request both decide; the device keeps the answer.

        Raises AllocationError.
        """
        known = device.verdicts.get(self.key)
        if known is None:
            known = self.class_selectors.hold_for(device) and self.selectors.hold_for(device)
            device.verdicts[self.key] = known
        return known

    def untolerated(self, device: Device) -> ObjectView | None:
        for taint in device.taints:
            if not is_tolerated(taint, self.tolerations):
                return taint
        return None

    def error(self, text: str, kind: type[AllocationError] = AllocationError) -> AllocationError:
        return kind(f"claim {self.claim}, request {self.own_name}: {text}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A request of a claim: alternatives in order of preference, or just the one that it is."""

    name: str
    options: Sequence[RequestPlan]  # up to the one with the error
    prioritized: bool
    error: AllocationError | None  # the error after `options`


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim; errors stay in their place, so that the search finds them in upstream's order."""

    claim: ObjectView
    key: str
    entries: Sequence[Entry]
    constraints: Sequence[Constraint | AllocationError]
    single: RequestPlan | None  # the request, if one device for it is all that the claim wants


def claim_key(claim: ObjectView) -> str:
    """`namespace/name`, or the name alone without a namespace."""
    metadata = claim["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def plan_claim(claim: ObjectView, classes: ClassLister, features: AllocatorFeatures) -> ClaimPlan:
    key = claim_key(claim)
    devices = (claim.get("spec") or {}).get("devices") or {}
    planner = _Planner(key, classes, features)
    entries = [planner.entry(request) for request in devices.get("requests") or ()]
    constraints = [
        planner.constraint(i, constraint) for i, constraint in enumerate(devices.get("constraints") or ())
    ]
    return ClaimPlan(claim, key, entries, constraints, None if constraints else _single(entries))


def _single(entries: Sequence[Entry]) -> RequestPlan | None:
    if len(entries) != 1 or entries[0].error is not None or entries[0].prioritized:
        return None
    only = entries[0].options[0]
    return None if only.count != 1 or only.admin_access else only


class _Planner:
    def __init__(self, key: str, classes: ClassLister, features: AllocatorFeatures) -> None:
        self._key = key
        self._classes = classes
        self._features = features

    def constraint(self, index: int, constraint: ObjectView) -> Constraint | AllocationError:
        requests = frozenset(constraint.get("requests") or ())
        for kind, distinct in (("matchAttribute", False), ("distinctAttribute", True)):
            if constraint.get(kind) is not None and (not distinct or self._features.knows_sharing):
                return Constraint(constraint[kind], requests, distinct, self._features)
        return AllocationError(
            f"claim {self._key}, constraint #{index}: empty constraint (unsupported constraint type?)"
        )

    def entry(self, request: ObjectView) -> Entry:
        alternatives: Sequence[ObjectView] = request.get("firstAvailable") or ()
        if not self._features.knows_partitions:
            alternatives = ()
        parts = [(alternative["name"], request["name"], alternative) for alternative in alternatives]
        if not alternatives:
            parts.append((request["name"], "", request.get("exactly") or {}))
        options: list[RequestPlan] = []
        failure: AllocationError | None = None
        try:
            self._check_features(request, alternatives)
            for part in parts:
                options += [self._plan(*part)]
        except AllocationError as error:
            failure = error
        return Entry(request["name"], options, bool(alternatives), failure)

    def _check_features(self, request: ObjectView, alternatives: Sequence[ObjectView]) -> None:
        gates = self._features.gates
        if alternatives and not gates.prioritized_list:
            self._refuse(request, "has subrequests, but the DRAPrioritizedList feature is disabled")
        if gates.consumable_capacity or not self._features.knows_sharing:
            return
        text = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
        if (request.get("exactly") or {}).get("capacity") is not None:
            self._refuse(request, text)
        for alternative in alternatives:
            if alternative.get("capacity") is not None:
                self._refuse(alternative, text, "subrequest")

    def _refuse(self, request: ObjectView, text: str, kind: str = "request") -> None:
        raise AllocationError(f"claim {self._key}, {kind} {request['name']}: {text}")

    def _plan(self, name: str, parent: str, spec: ObjectView) -> RequestPlan:
        where = f"claim {self._key}, request {name}"
        selectors = self._selectors(f"claim {self._key}", where, spec.get("selectors"))
        admin_access = None if parent else spec.get("adminAccess")
        if admin_access is not None and not self._features.gates.admin_access:
            raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
        class_name = spec.get("deviceClassName")
        if not class_name:
            raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
        try:
            device_class = self._classes.device_class(class_name)
        except LookupError as error:
            text = error.args[0] if error.args else error
            raise AllocationError(f"{where}: could not retrieve device class {class_name}: {text}") from None
        of_class = (device_class.get("spec") or {}).get("selectors")
        class_selectors = self._selectors(f"class {class_name}", where, of_class)
        asked: Mapping[str, Any] = (spec.get("capacity") or {}).get("requests") or {}
        tolerations = (spec.get("tolerations") or ()) if self._features.knows_partitions else ()
        key = _verdict_key(class_selectors.selectors, selectors.selectors)
        return RequestPlan(
            self._key,
            name,
            parent,
            device_class,
            class_selectors,
            selectors,
            _count(where, spec),
            bool(admin_access),
            tolerations,
            {each: Quantity.of(amount) for each, amount in asked.items()},
            key,
            key if not (asked or tolerations) else (key, *map(repr, (asked, tolerations))),
        )

    def _selectors(self, owner: str, where: str, selectors: Sequence[ObjectView] | None) -> SelectorList:
        for index, selector in enumerate(selectors or ()):
            if selector.get("cel") is None:
                raise AllocationError(
                    f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
                )
        expressions = [selector["cel"].get("expression") or "" for selector in selectors or ()]
        compiled = tuple(compile_selector(expression, self._features.cel) for expression in expressions)
        return SelectorList(owner, compiled, self._features.device_in_errors)


def _count(where: str, spec: ObjectView) -> int | None:
    mode = spec.get("allocationMode")
    if mode == "ExactCount":
        return int(spec.get("count") or 0)
    if mode == "All":
        return None
    raise AllocationError(f"{where}: unsupported count mode {mode or ''}")


@lru_cache(maxsize=4096)
def _verdict_key(*selectors: tuple[Selector, ...]) -> object:
    """One object per combination is cheaper to look up than the selectors themselves."""
    return _VerdictKey(selectors)


class _VerdictKey:
    __slots__ = ("selectors",)

    def __init__(self, selectors: tuple[tuple[Selector, ...], ...]) -> None:
        self.selectors = selectors


def never() -> bool:
    return False


def no_limit() -> Callable[[], bool]:
    return never


class Choice(NamedTuple):
    request: RequestPlan
    device: Device
    taken: Amounts | None = None  # capacity of a share


class ClaimSolution(NamedTuple):
    """The devices of a claim, and the alternative chosen for each of its requests."""

    choices: Sequence[Choice]
    options: Sequence[RequestPlan]


Solution = Sequence[ClaimSolution]  # per claim


@dataclass(frozen=True, slots=True)
class Option:
    """A request or alternative, with the number of devices that it needs on this node."""

    plan: RequestPlan
    count: int
    fixed: Sequence[Device] | None  # all devices, if it wants all


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    options: Sequence[Option]
    prioritized: bool


@dataclass(slots=True)
class PreparedClaim:
    requests: Sequence[PreparedRequest]
    constraints: Sequence[ConstraintState]
    chosen: dict[int, RequestPlan] = field(default_factory=dict)  # request index → alternative


def wants_all(claim: PreparedClaim) -> bool:
    return any(option.fixed is not None for request in claim.requests for option in request.options)


class CapacityCheck:
    """Checks that devices have the capacity that requests need, in addition to what their other users
    take."""

    def __init__(self, state: AllocatedState, features: AllocatorFeatures) -> None:
        self._consumed = state.consumed
        self._shares = features.gates.consumable_capacity
        self.rounding = Rounding(features.gates.fractional_ranges, features.exact_rounding)
        self._all = features.all_even_if_used_up

    def shortage(self, request: RequestPlan, device: Device, allocating: Amounts | None = None) -> str | None:
        """Text of what the device lacks, None if it can serve the request; raises AllocationError.

        A device that is not shared must have the capacity as well.
        """
        used = [amounts for amounts in (self._consumed.get(device.id), allocating) if amounts]
        return self._refusal(request, device, used)

    def is_one_of_all(self, request: RequestPlan, device: Device) -> bool:
        """A request for all devices includes those with the capacity; raises AllocationError."""
        reason = self._refusal(request, device, ()) if self._all else self.shortage(request, device)
        return reason is None

    def _refusal(self, request: RequestPlan, device: Device, used: Sequence[Amounts]) -> str | None:
        if not self._shares or not (device.capacities or request.capacity):
            return None
        try:
            return refusal(request.capacity, device.capacities, used, self.rounding)
        except CapacityError as error:
            raise request.error(str(error)) from None


class Preparation:
    """Makes upstream's checks before the search, in upstream's order."""

    def __init__(
        self,
        pools: NodePools,
        node: NodeView,
        state: AllocatedState,
        features: AllocatorFeatures,
        expired: Callable[[], bool] = never,
    ) -> None:
        """`expired` is checked before selectors are evaluated."""
        self._pools = pools
        self._node = node
        self.capacity = CapacityCheck(state, features)
        self._expired = expired
        self._mixes = features.alternatives_mixed
        self._overlooks_class = features.all_overlook_class
        self._unusable_pool = AllocationError if features.all_ends_attempt else NodeAllocationError
        self._verdicts: dict[int, dict[DeviceID, bool]] = {}  # by plan; several plans may have one

    def claim(self, plan: ClaimPlan) -> PreparedClaim:
        """Raises AllocationError for more than MAX_RESULTS devices, and where the plan holds an error."""
        requests = [self._request(entry) for entry in plan.entries]
        number = sum(min(option.count for option in request.options) for request in requests)
        if number > MAX_RESULTS:
            limit = f"exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {plan.key}: number of requested devices {number} {limit}")
        constraints: list[ConstraintState] = []
        for constraint in plan.constraints:
            if isinstance(constraint, AllocationError):
                raise constraint
            constraints.append(constraint.start())
        return PreparedClaim(requests, constraints)

    def _request(self, entry: Entry) -> PreparedRequest:
        options: list[Option] = []
        verdicts: list[dict[DeviceID, bool]] = [{} for _ in entry.options]
        mixes = self._mixes and entry.prioritized
        for index, plan in enumerate(entry.options):
            if mixes:  # upstream counts too late: it identifies the plan by the number of the one before
                self._verdicts[id(plan)] = verdicts[max(index - 1, 0)]
            fixed = self._all_devices(plan) if plan.count is None else None
            count = len(fixed) if fixed is not None else plan.count or 0
            options.append(Option(plan, count, fixed))
        self._verdicts.clear()  # the search checks again
        if entry.error is not None:
            raise entry.error
        return PreparedRequest(options, entry.prioritized)

    def _all_devices(self, request: RequestPlan) -> list[Device]:
        found: list[Device] = []
        for pool in self._pools.pools:
            trouble = "being updated" if pool.incomplete else "invalid" if pool.invalid else ""
            if trouble:
                where = f"resource pool {pool.id} is currently {trouble}"
                raise request.error(f"asks for all devices, but {where}", self._unusable_pool)
            found += [device for device in pool.devices if self._is_one_of_all(request, device)]
        return found

    def _is_one_of_all(self, request: RequestPlan, device: Device) -> bool:
        if self._overlooks_class:
            return request.selectors.hold_for(device)
        return self.selectable(request, device) and self.capacity.is_one_of_all(request, device)

    def selectable(self, request: RequestPlan, device: Device) -> bool:
        """Raises AllocationError for a selector that fails."""
        if not device.usable:
            return False
        verdicts = self._verdicts.get(id(request)) if self._verdicts else None
        if verdicts is None:
            return self._selects(request, device)
        if device.id not in verdicts:
            verdicts[device.id] = self._selects(request, device)
        return verdicts[device.id]

    def _selects(self, request: RequestPlan, device: Device) -> bool:
        known = device.verdicts.get(request.key)
        if known is None:
            if self._expired():
                raise SearchTimeout
            known = request.selects(device)
        if not known:
            return False
        return not device.per_node or device.is_on(self._node.labels, self._node.name)
