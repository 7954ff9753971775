"""Claims made ready for the search: what can be known of a request before looking at a node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from apimachinery.cel.devices import Selector, compile_selector
from apimachinery.cel.errors import CELError, CompileError
from scheduler.allocator.constraints import MatchAttribute
from scheduler.allocator.devices import Device
from scheduler.allocator.errors import AllocationError
from scheduler.allocator.rules import AllocatorRules

Object = Mapping[str, Any]

MAX_RESULTS = 32  # resource.k8s.io AllocationResultsMaxSize


class ClassLister(Protocol):
    """Where device classes come from."""

    def device_class(self, name: str) -> Object:
        """The class; raises LookupError with the text that users see."""
        ...


@dataclass(frozen=True, slots=True)
class SelectorList:
    """Compiled selectors of one origin; `owner` begins the text of their errors."""

    owner: str
    selectors: tuple[Selector, ...]

    def hold_for(self, device: Device) -> bool:
        """Raises AllocationError if a selector does not compile or fails."""
        for index, selector in enumerate(self.selectors):
            try:
                if not device.meets(selector):
                    return False
            except CELError as error:
                kind = "compile" if isinstance(error, CompileError) else "runtime"
                raise AllocationError(f"{self.owner}: selector #{index}: CEL {kind} error: {error}") from None
        return True


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """A request for devices of one class. `count` is None for all devices."""

    claim: str
    name: str
    device_class: Object
    class_selectors: SelectorList
    selectors: SelectorList
    count: int | None
    admin_access: bool
    key: object  # the same for all requests with the same selectors: devices remember verdicts under it

    def selects(self, device: Device) -> bool:
        """Whether class and request want the device; the device remembers. Raises AllocationError."""
        known = device.verdicts.get(self.key)
        if known is None:
            known = self.class_selectors.hold_for(device) and self.selectors.hold_for(device)
            device.verdicts[self.key] = known
        return known

    def error(self, text: str) -> AllocationError:
        return AllocationError(f"claim {self.claim}, request {self.name}: {text}")


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """A claim; an element of `requests` may be the error that looking at it gives."""

    claim: Object
    key: str
    requests: Sequence[RequestPlan | AllocationError]
    constraints: Sequence[MatchAttribute | AllocationError]
    single: RequestPlan | None  # the request, if one device for it is all that the claim wants


def claim_key(claim: Object) -> str:
    """`namespace/name`, or the name alone."""
    metadata = claim["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


def plan_claim(claim: Object, classes: ClassLister, rules: AllocatorRules) -> ClaimPlan:
    """Errors are kept in their place: the search meets them in upstream's order."""
    key = claim_key(claim)
    devices = claim["spec"].get("devices") or {}
    requests = [_plan_request(key, request, classes, rules) for request in devices.get("requests") or ()]
    constraints = [_plan_constraint(key, i, each) for i, each in enumerate(devices.get("constraints") or ())]
    return ClaimPlan(claim, key, requests, constraints, None if constraints else _single(requests))


def _single(requests: Sequence[RequestPlan | AllocationError]) -> RequestPlan | None:
    only = requests[0] if len(requests) == 1 else None
    if not isinstance(only, RequestPlan) or only.count != 1 or only.admin_access:
        return None
    return only


def _plan_constraint(key: str, index: int, constraint: Object) -> MatchAttribute | AllocationError:
    attribute = constraint.get("matchAttribute")
    if not attribute:
        return AllocationError(
            f"claim {key}, constraint #{index}: empty constraint (unsupported constraint type?)"
        )
    return MatchAttribute(attribute, frozenset(constraint.get("requests") or ()))


def _plan_request(
    key: str, request: Object, classes: ClassLister, rules: AllocatorRules
) -> RequestPlan | AllocationError:
    try:
        return _checked(key, request, classes, rules)
    except AllocationError as error:
        return error


def _checked(key: str, request: Object, classes: ClassLister, rules: AllocatorRules) -> RequestPlan:
    where = f"claim {key}, request {request['name']}"
    if request.get("firstAvailable"):
        raise AllocationError(f"{where}: has subrequests, but the DRAPrioritizedList feature is disabled")
    exactly = request.get("exactly") or {}
    if (exactly.get("capacity") or {}).get("requests"):
        raise AllocationError(
            f"{where}: has capacity requests, but the DRAConsumableCapacity feature is disabled"
        )
    class_name = exactly.get("deviceClassName")
    if not class_name:
        raise AllocationError(f"{where}: missing device class name (unsupported request type?)")
    try:
        device_class = classes.device_class(class_name)
    except LookupError as error:
        text = error.args[0] if error.args else error
        raise AllocationError(f"{where}: could not retrieve device class {class_name}: {text}") from None
    admin_access = exactly.get("adminAccess")
    if admin_access is not None and not rules.admin_access:
        raise AllocationError(f"{where}: admin access is requested, but the feature is disabled")
    of_class = (device_class.get("spec") or {}).get("selectors")
    class_selectors = _selectors(f"class {class_name}", where, of_class, rules)
    selectors = _selectors(f"claim {key}", where, exactly.get("selectors"), rules)
    return RequestPlan(
        key,
        request["name"],
        device_class,
        class_selectors,
        selectors,
        _count(where, exactly),
        bool(admin_access),
        _verdict_key(class_selectors.selectors, selectors.selectors),
    )


@lru_cache(maxsize=4096)
def _verdict_key(*selectors: tuple[Selector, ...]) -> object:
    """One object per combination: cheaper to look up than the selectors themselves."""
    return _VerdictKey(selectors)


class _VerdictKey:
    __slots__ = ("selectors",)

    def __init__(self, selectors: tuple[tuple[Selector, ...], ...]) -> None:
        self.selectors = selectors


def _count(where: str, exactly: Object) -> int | None:
    mode = exactly.get("allocationMode")
    if mode == "ExactCount":
        return int(exactly.get("count") or 0)
    if mode == "All":
        return None
    raise AllocationError(f"{where}: unsupported count mode {mode or ''}")


def _selectors(
    owner: str, where: str, selectors: Sequence[Object] | None, rules: AllocatorRules
) -> SelectorList:
    for index, selector in enumerate(selectors or ()):
        if selector.get("cel") is None:
            raise AllocationError(
                f"{where}, selector #{index}: CEL expression empty (unsupported selector type?)"
            )
    expressions = [selector["cel"].get("expression") or "" for selector in selectors or ()]
    return SelectorList(owner, tuple(compile_selector(expression, rules.cel) for expression in expressions))
