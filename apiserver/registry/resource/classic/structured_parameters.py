"""Structured parameters of 1.30 with slices of named resources: validation, strategies and cells of tables.

The kinds are ResourceClassParameters, ResourceClaimParameters, and ResourceSlice in its first shape.

Sources: pkg/apis/resource/validation/validation.go, structured/namedresources/validation (validateSelector)
and pkg/registry/resource/*/strategy.go, 1.30; pkg/printers/internalversion/printers.go, 1.36.
"""

from collections.abc import Iterator
from typing import Any, ClassVar

from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import HandwrittenBuiltIn, ReturnsDeletedObject
from kubeskew.apiserver.registry.generic.strategy import ONCE_AS_NEW, Checks, StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.classic import rules
from kubeskew.apiserver.registry.resource.classic.strategy import Mutable
from kubeskew.apiserver.registry.resource.devices import SEVERAL
from kubeskew.apiserver.registry.shared.formats import NOT_SEMVER, SEMVER
from kubeskew.apiserver.registry.tables.cells import Cells, Subject, kind_name

_VALUES = ("bool", "int", "intSlice", "quantity", "string", "stringSlice", "version")
_MODELS = ("namedResources",)
_NOWHERE = "<nil>"  # a path that is none, as Go shows it


def slice_errors(obj: Object) -> Iterator[FieldError]:
    if obj.get("nodeName"):
        yield from devices.subdomain(obj["nodeName"], "nodeName")
    yield from rules.driver(obj.get("driverName") or "", "driverName")
    yield from _model(obj, _NOWHERE)
    named = obj.get("namedResources")
    if named is not None:
        yield from _instances(named.get("instances") or [], "namedResources.instances")


def claim_parameters_errors(obj: Object, *, stored: bool = False) -> Iterator[FieldError]:
    """`stored`: selectors may use what is not yet for new expressions."""
    yield from rules.origin_errors(obj.get("generatedFrom"))
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
    yield from rules.origin_errors(obj.get("generatedFrom"))
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
    yield from rules.driver(name, at)
    if name in seen:
        yield duplicate(at, name)
    seen.add(name)


def _selecting(entry: Object, path: str, *, stored: bool = False) -> Iterator[FieldError]:
    yield from _model(entry, path)
    named = entry.get("namedResources")
    if named is not None:
        selector, at = named.get("selector") or "", child(path, "namedResources.selector")
        yield from (_selector_errors(selector, at, stored=stored) if selector else [required(at)])


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


def _selector_errors(expression: str, path: str, *, stored: bool) -> Iterator[FieldError]:
    from kubeskew.apimachinery.cel.named_resources import compile_selector  # rare, and much to import

    yield from rules.compile_errors(compile_selector, expression, path, stored=stored)


class SliceStrategy(HandwrittenBuiltIn, ReturnsDeletedObject):
    field_labels = ("nodeName", "driverName")
    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(slice_errors(obj))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(rules.slice_change_errors(new, old))


class ClaimParametersStrategy(Mutable):
    """ResourceClaimParameters is a kind of 1.30."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_parameters_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        """Requests that stay may have been checked by a later release."""
        stored = (new.get("driverRequests") or []) == (old.get("driverRequests") or [])
        return list(claim_parameters_errors(new, stored=stored))


class ClassParametersStrategy(Mutable):
    """ResourceClassParameters is a kind of 1.30."""

    update_checks: ClassVar[Checks] = ONCE_AS_NEW

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(class_parameters_errors(obj))


def resource_slice_cells(subject: Subject) -> Cells:
    return {"NodeName": subject.text("nodeName"), "DriverName": subject.text("driverName")}


def generated_parameters_cells(subject: Subject) -> Cells:
    source = subject.at("generatedFrom")
    if source is None:
        return {"GeneratedFrom": ""}
    kind = kind_name(source.get("kind", ""), source.get("apiGroup", ""))
    return {"GeneratedFrom": f"{kind} {source.get('name', '')}"}
