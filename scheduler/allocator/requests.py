"""Prepares claims for the search: all about a request that does not depend on the node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from kubeskew.apimachinery.cel.devices import Selector, compile_selector
from kubeskew.apimachinery.cel.errors import CELError, CompileError
from kubeskew.apimachinery.objects import ObjectView
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.apimachinery.selectors.taints import tolerates
from kubeskew.scheduler.allocator.allocated_state import Amounts
from kubeskew.scheduler.allocator.constraints import Constraint
from kubeskew.scheduler.allocator.errors import AllocationError
from kubeskew.scheduler.allocator.features import AllocatorFeatures
from kubeskew.scheduler.allocator.slices import Device

MAX_RESULTS = 32  # resource.k8s.io AllocationResultsMaxSize
_HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


class ClassLister(Protocol):
    """Finds device classes."""

    def device_class(self, name: str) -> ObjectView:
        """Returns the class; raises LookupError with the text that users see."""
        ...


@dataclass(frozen=True, slots=True)
class SelectorList:
    """Compiled selectors of one origin; `owner` begins the text of their errors."""

    owner: str
    selectors: tuple[Selector, ...]
    device_in_errors: bool

    def hold_for(self, device: Device) -> bool:
        """Returns whether all selectors hold; raises AllocationError if one does not compile or fails."""
        return self.refusing(device) is None

    def refusing(self, device: Device) -> int | None:
        """Returns the index of the first selector that does not hold."""
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
    """A request for devices of one class, or one alternative of such a request."""

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
        """Returns the name that results use."""
        return f"{self.parent}/{self.own_name}" if self.parent else self.own_name

    def selects(self, device: Device) -> bool:
        """Returns whether class and request select the device; the device keeps the answer.

        Raises AllocationError.
        """
        known = device.verdicts.get(self.key)
        if known is None:
            known = self.class_selectors.hold_for(device) and self.selectors.hold_for(device)
            device.verdicts[self.key] = known
        return known

    def untolerated(self, device: Device) -> ObjectView | None:
        """Returns a taint that keeps the device from the request."""
        for taint in device.taints:
            if not any(tolerates(toleration, taint) for toleration in self.tolerations):
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
    """Returns `namespace/name`, or the name alone."""
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
    """Plans the requests and constraints of one claim."""

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
    """Returns one object per combination, cheaper to look up than the selectors themselves."""
    return _VerdictKey(selectors)


class _VerdictKey:
    __slots__ = ("selectors",)

    def __init__(self, selectors: tuple[tuple[Selector, ...], ...]) -> None:
        self.selectors = selectors
