"""Classic dynamic resource allocation, 1.26 to 1.31: validation, strategies and cells of tables.

Its kinds are ResourceClass, PodSchedulingContext, and the structured parameters of 1.30, with slices of named
resources; its claims are of classes of drivers.

Sources: pkg/apis/resource/validation/validation.go, 1.26 to 1.30 (PodSchedulingContext: to 1.31);
structured/namedresources/validation and pkg/registry/resource/*/strategy.go, 1.30;
pkg/printers/internalversion/printers.go, 1.36.
"""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    ErrorType,
    FieldError,
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    required,
)
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.object_meta import IMMUTABLE
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import (
    ONCE_AS_NEW,
    TWICE_AS_NEW,
    Checks,
    StatusStrategy,
    StrategyContext,
)
from kubeskew.apiserver.registry.resource import devices, semantic
from kubeskew.apiserver.registry.resource.devices import (
    SEVERAL,
    named_resources_selector_errors,
    origin_errors,
)
from kubeskew.apiserver.registry.shared import selectors
from kubeskew.apiserver.registry.shared.formats import NOT_SEMVER, SEMVER
from kubeskew.apiserver.registry.shared.volumes.claims import template_metadata_errors
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, kind_name

_VALUES = ("bool", "int", "intSlice", "quantity", "string", "stringSlice", "version")
_MODELS = ("namedResources",)
_NOWHERE = "<nil>"  # a path that is none, as Go shows it
MAX_USERS = 32
MAX_HANDLES = 32
MAX_HANDLE_BYTES = 16 * 1024
MAX_NODES = 128
_MODES = ("Immediate", "WaitForFirstConsumer")
_NO_NEW_USERS = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"


def slice_errors(obj: Object) -> Iterator[FieldError]:
    if obj.get("nodeName"):
        yield from devices.subdomain(obj["nodeName"], "nodeName")
    yield from devices.classic_driver(obj.get("driverName") or "", "driverName")
    yield from _model(obj, _NOWHERE)
    named = obj.get("namedResources")
    if named is not None:
        yield from _instances(named.get("instances") or [], "namedResources.instances")


def claim_parameters_errors(obj: Object, *, stored: bool = False) -> Iterator[FieldError]:
    """`stored`: selectors may use what is not yet for new expressions."""
    yield from origin_errors(obj.get("generatedFrom"))
    seen: set[str] = set()
    for position, request in enumerate(obj.get("driverRequests") or []):
        at = index("driverRequests", position)
        yield from _driver(request, at, seen)
        where, requests = child(at, "requests"), request.get("requests") or []
        for place, each in enumerate(requests):
            yield from _selecting(each, index(where, place), stored=stored)
        if not requests:
            yield required(where, "empty entries with no requests are not allowed")


def class_parameters_errors(obj: Object) -> Iterator[FieldError]:
    """Stored filters get no leniency, as upstream."""
    yield from origin_errors(obj.get("generatedFrom"))
    namespace = (obj.get("generatedFrom") or {}).get("namespace")
    if namespace:
        yield from devices.label(namespace, "generatedFrom.namespace")
    seen: set[str] = set()
    for position, selection in enumerate(obj.get("filters") or []):
        at = index("filters", position)
        yield from _driver(selection, at, seen)
        yield from _selecting(selection, at)
    seen = set()
    for position, parameters in enumerate(obj.get("vendorParameters") or []):
        yield from _driver(parameters, index("vendorParameters", position), seen)


def handle_errors(handle: Object, path: str) -> Iterator[FieldError]:
    structured = handle.get("structuredData")
    if structured is None:
        return
    at = child(path, "structuredData")
    if structured.get("nodeName"):
        yield from devices.subdomain(structured["nodeName"], child(at, "nodeName"))
    for position, result in enumerate(structured.get("results") or []):
        where = index(child(at, "results"), position)
        yield from _model(result, where)
        named = result.get("namedResources")
        if named is not None:
            yield from devices.subdomain(named.get("name") or "", child(where, "namedResources.name"))
    if handle.get("data"):
        yield invalid(path, None, "data and structuredData are mutually exclusive")


def _driver(entry: Object, path: str, seen: set[str]) -> Iterator[FieldError]:
    name, at = entry.get("driverName") or "", child(path, "driverName")
    yield from devices.classic_driver(name, at)
    if name in seen:
        yield duplicate(at, name)
    seen.add(name)


def _selecting(entry: Object, path: str, *, stored: bool = False) -> Iterator[FieldError]:
    yield from _model(entry, path)
    named = entry.get("namedResources")
    if named is not None:
        selector, at = named.get("selector") or "", child(path, "namedResources.selector")
        yield from (
            named_resources_selector_errors(selector, at, stored=stored) if selector else [required(at)]
        )


def _model(entry: Object, path: str) -> Iterator[FieldError]:
    if not any(entry.get(name) is not None for name in _MODELS):
        yield required(path, "exactly one structured model field must be set")


def _instances(instances: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, instance in enumerate(instances):
        at = index(path, position)
        yield from _unique_name(instance, at, seen)
        names: set[str] = set()
        for place, attribute in enumerate(instance.get("attributes") or []):
            where = index(child(at, "attributes"), place)
            yield from _unique_name(attribute, where, names)
            yield from _value(attribute, where)


def _unique_name(entry: Object, path: str, seen: set[str]) -> Iterator[FieldError]:
    name, at = entry.get("name") or "", child(path, "name")
    yield from devices.subdomain(name, at)
    if name in seen:
        yield duplicate(at, name)
    seen.add(name)


def _value(attribute: Object, path: str) -> Iterator[FieldError]:
    given: list[Any] = [name for name in _VALUES if attribute.get(name) is not None]
    if "version" in given and not SEMVER.fullmatch(attribute["version"]):
        yield invalid(child(path, "version"), attribute["version"], NOT_SEMVER)
    if not given:
        yield required(path, "exactly one value must be set")
    elif len(given) > 1:
        yield invalid(path, given, SEVERAL)


def claim_errors(spec: Object, path: str) -> Iterator[FieldError]:
    name, mode = spec.get("resourceClassName") or "", spec.get("allocationMode") or ""
    yield from devices.subdomain(name, child(path, "resourceClassName"))
    yield from _parameters(spec.get("parametersRef"), child(path, "parametersRef"))
    if mode not in _MODES:
        yield not_supported(child(path, "allocationMode"), mode, _MODES)


def template_errors(spec: Object) -> Iterator[FieldError]:
    yield from template_metadata_errors(spec.get("metadata") or {}, "spec.metadata")
    yield from claim_errors(spec.get("spec") or {}, "spec.spec")


def change_errors(new: Object, old: Object) -> Iterator[FieldError]:
    if new.get("spec") != old.get("spec"):
        yield invalid("spec", new.get("spec"), IMMUTABLE)


def class_errors(obj: Object) -> Iterator[FieldError]:
    yield from devices.classic_driver(obj.get("driverName") or "", "driverName")
    reference = obj.get("parametersRef")
    yield from _parameters(reference, "parametersRef")
    namespace = (reference or {}).get("namespace")
    if namespace:
        yield from devices.label(namespace, "parametersRef.namespace")
    if obj.get("suitableNodes") is not None:
        yield from selectors.node_selector_errors(obj["suitableNodes"], "suitableNodes", any_value=True)
    yield from semantic.parameter_type_errors(obj)


def _parameters(reference: Object | None, path: str) -> Iterator[FieldError]:
    if reference is not None:
        yield from (required(child(path, name)) for name in ("kind", "name") if not reference.get(name))


def claim_status_errors(new: Object, old: Object) -> Iterator[FieldError]:
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation = status.get("allocation")
    if status.get("driverName"):
        yield from devices.classic_driver(status["driverName"], "status.driverName")
    elif allocation is not None:
        yield required("status.driverName", "must be specified when `allocation` is set")
    yield from _allocation(allocation or {})
    if None not in (allocation, before.get("allocation")) and allocation != before["allocation"]:
        yield invalid("status.allocation", allocation, IMMUTABLE)
    yield from _users(status.get("reservedFor") or [])
    yield from _reservations(new, status, before)
    yield from deallocation_errors(status, before)


def _allocation(allocation: Object) -> Iterator[FieldError]:
    at, handles = "status.allocation.resourceHandles", allocation.get("resourceHandles") or []
    for position, handle in enumerate(handles):
        where = index(at, position)
        yield from devices.classic_driver(handle.get("driverName") or "", child(where, "driverName"))
        if len((handle.get("data") or "").encode()) > MAX_HANDLE_BYTES:
            yield _longer(child(where, "data"), MAX_HANDLE_BYTES)
        yield from handle_errors(handle, where)
        yield from semantic.handle_errors(handle, where)
    if len(handles) > MAX_HANDLES:
        yield _longer(at, MAX_HANDLES)
    if len((allocation.get("resourceHandle") or "").encode()) > MAX_HANDLE_BYTES:  # 1.26
        yield _longer("status.allocation.resourceHandle", MAX_HANDLE_BYTES)
    if allocation.get("availableOnNodes") is not None:
        nodes = allocation["availableOnNodes"]
        where = "status.allocation.availableOnNodes"
        yield from selectors.node_selector_errors(nodes, where, any_value=True)


def _users(users: list[Object]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, user in enumerate(users):
        at, uid = index("status.reservedFor", position), user.get("uid") or ""
        if uid in seen:
            yield duplicate(child(at, "uid"), uid)
            continue
        seen.add(uid)
        yield from (required(child(at, name)) for name in ("resource", "name", "uid") if not user.get(name))
    if len(users) > MAX_USERS:
        yield _longer("status.reservedFor", MAX_USERS)


def _reservations(claim: Object, status: Object, before: Object) -> Iterator[FieldError]:
    users, allocation = status.get("reservedFor") or [], status.get("allocation")
    if not users:
        return
    if allocation is None:
        yield forbidden("status.reservedFor", "may not be specified when `allocated` is not set")
        return
    if not allocation.get("shareable") and len(users) > 1:
        yield forbidden("status.reservedFor", "may not be reserved more than once")
    if claim["metadata"].get("deletionTimestamp") or status.get("deallocationRequested"):
        known = before.get("reservedFor") or []
        if any(user not in known for user in users):
            yield forbidden("status.reservedFor", _NO_NEW_USERS)


def deallocation_errors(status: Object, before: Object) -> Iterator[FieldError]:
    """Drivers are asked to deallocate a claim's devices, in 1.31 too."""
    asked, was, at = status.get("deallocationRequested"), before.get("deallocationRequested"), "status"
    if asked and not was and status.get("reservedFor"):
        text = "deallocation cannot be requested while `reservedFor` is set"
        yield forbidden(child(at, "deallocationRequested"), text)
    if asked and status.get("allocation") is None:
        yield forbidden(at, "`allocation` must be set when `deallocationRequested` is set")
    if was and not asked and status.get("allocation") is not None:
        yield forbidden(child(at, "deallocationRequested"), "may not be cleared when `allocation` is set")


def scheduling_errors(spec: Object) -> Iterator[FieldError]:
    yield from _nodes(spec.get("potentialNodes") or [], "spec.potentialNodes")


def scheduling_status_errors(status: Object) -> Iterator[FieldError]:
    seen: set[str] = set()
    for position, claim in enumerate(status.get("resourceClaims") or []):
        at, name = index("status.claims", position), claim.get("name") or ""
        yield from _nodes(claim.get("unsuitableNodes") or [], child(at, "unsuitableNodes"))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _nodes(listed: list[str], path: str) -> Iterator[FieldError]:
    check: Callable[[str], list[str]] = names.dns1123_subdomain
    seen: set[str] = set()
    for position, name in enumerate(listed):
        at = index(path, position)
        if name in seen:
            yield duplicate(at, name)
        else:
            yield from (invalid(at, name, text) for text in check(name))
        seen.add(name)
    if len(listed) > MAX_NODES:
        yield _longer(path, MAX_NODES)


def _longer(path: str, most: int) -> FieldError:
    return FieldError(ErrorType.TOO_LONG, path, detail=f"may not be longer than {most}")


class ClassicStatus(StatusStrategy):
    """Status writes may change metadata until 1.29."""

    def metadata_kept(self, ctx: StrategyContext) -> tuple[str, ...]:
        return self.kept_metadata if ctx.features.devices.status_keeps_metadata else ()


class _Mutable(HandwrittenBuiltIn, ReturnsDeletedObject):
    """A changed object is checked as a new one; any change is fine."""

    update_checks: ClassVar[Checks] = TWICE_AS_NEW

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


class SchedulingStatusStrategy(ClassicStatus):
    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(scheduling_status_errors(new.get("status") or {}))


class SchedulingContextStrategy(_Mutable):
    """PodScheduling is the older name of the kind."""

    status = SchedulingStatusStrategy

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(scheduling_errors(obj.get("spec") or {}))


class ResourceClassStrategy(_Mutable):
    """ResourceClass is a kind of 1.26 to 1.30."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(class_errors(obj))


class ClaimParametersStrategy(_Mutable):
    """ResourceClaimParameters is a kind of 1.30, and of KEP-4381's draft."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        if ctx.features.devices.semantic_parameters:
            return list(semantic.claim_parameters_errors(obj))
        return list(claim_parameters_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Requests that stay may have been checked by a later release."""
        if ctx.features.devices.semantic_parameters:
            return list(semantic.claim_parameters_errors(new, semantic.selectors_of(old)))
        stored = (new.get("driverRequests") or []) == (old.get("driverRequests") or [])
        return list(claim_parameters_errors(new, stored=stored))


class ClassParametersStrategy(_Mutable):
    """ResourceClassParameters is a kind of 1.30."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(class_parameters_errors(obj))


def resource_class_cells(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}


def pod_scheduling_context_cells(subject: Subject) -> Cells:
    return {"SelectedNode": subject.text("spec", "selectedNode")}


def generated_parameters_cells(subject: Subject) -> Cells:
    source = subject.at("generatedFrom")
    if source is None:
        return {"GeneratedFrom": ""}
    kind = kind_name(source.get("kind", ""), source.get("apiGroup", ""))
    return {"GeneratedFrom": f"{kind} {source.get('name', '')}"}
