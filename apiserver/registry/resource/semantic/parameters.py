"""Kinds of semantic parameters, as KEP-4381 drafted them: defaults, validation, strategy, cells of tables.

The draft gives few rules. Texts, and what may change, are as in 1.30 for structured parameters, which they
became (pkg/apis/resource/validation/validation.go, pkg/registry/resource/*/strategy.go). The cells are a
guess after 1.30's ResourceSlice.
"""

from collections.abc import Collection, Iterator
from typing import Any

from kubeskew.apimachinery.field import FieldError, child, duplicate, index, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, each, fill
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource import devices
from kubeskew.apiserver.registry.resource.classic import (
    resourceclaim,
    resourceclass,
    rules,
    structured_parameters,
)
from kubeskew.apiserver.registry.resource.devices import SEVERAL
from kubeskew.apiserver.registry.shared.amounts import NOT_NEGATIVE
from kubeskew.apiserver.registry.shared.formats import NOT_SEMVER, SEMVER
from kubeskew.apiserver.registry.tables.cells import Cells, Subject

_MODELS = ("counter", "metadata")
_ONE_MODEL = "exactly one semantic model field must be set"


def default_node_slice(obj: Object, _: DefaultingContext) -> None:
    """The draft's examples call the identifier of a resource its name."""
    for resource in each(obj, "resources"):
        if resource.get("name"):
            fill(resource, id=resource["name"])


def slice_errors(obj: Object) -> Iterator[FieldError]:
    yield from _node(obj, "nodeName")
    yield from rules.driver(obj.get("driverName") or "", "driverName")
    seen: set[str] = set()
    for position, resource in enumerate(obj.get("resources") or []):
        at = index("resources", position)
        identifier, name = resource.get("id") or "", resource.get("name") or ""
        yield from _unique(identifier, child(at, "id"), seen)
        if name and name != identifier:
            yield invalid(child(at, "name"), name, "must be the same as `id` if both are given")
        names: set[str] = set()
        for place, attribute in enumerate(resource.get("attributes") or []):
            yield from _attribute(attribute, index(child(at, "attributes"), place), names)


def parameter_type_errors(resource_class: Object) -> Iterator[FieldError]:
    seen: set[tuple[str, str]] = set()
    for position, allowed in enumerate(resource_class.get("parameterTypes") or []):
        at = index("parameterTypes", position)
        group, kind = allowed.get("apiGroup") or "", allowed.get("kind") or ""
        if group:
            yield from devices.subdomain(group, child(at, "apiGroup"))
        if not kind:
            yield required(child(at, "kind"))
        elif (group, kind) in seen:
            yield duplicate(at, allowed)
        seen.add((group, kind))


def claim_parameters_errors(obj: Object, stored: Collection[str] = ()) -> Iterator[FieldError]:
    """`stored` are selectors that were accepted before."""
    origin = obj.get("generatedFrom")
    yield from rules.origin_errors(origin)
    if origin is not None:
        if not origin.get("uid"):
            yield required("generatedFrom.uid")
        yield from _amount(origin, "generatedFrom", "generation")
    seen: set[str] = set()
    for position, parameter in enumerate(obj.get("parameters") or []):
        at = index("parameters", position)
        yield from _unique(parameter.get("name") or "", child(at, "name"), seen)
        yield from _model(parameter, at, _MODELS)
        yield from _amount(parameter.get("counter") or {}, child(at, "counter"), "required")
        if parameter.get("metadata") is not None:
            expression, where = parameter["metadata"].get("selector") or "", child(at, "metadata.selector")
            accepted = expression in stored
            yield from (
                _selector_errors(expression, where, stored=accepted) if expression else [required(where)]
            )


def selectors_of(obj: Object) -> frozenset[str]:
    parameters = obj.get("parameters") or ()
    return frozenset((parameter.get("metadata") or {}).get("selector") or "" for parameter in parameters)


def handle_errors(handle: Object, path: str) -> Iterator[FieldError]:
    semantic = handle.get("semanticData")
    if semantic is None:
        return
    if handle.get("data"):
        yield invalid(path, None, "data and semanticData are mutually exclusive")
    at = child(path, "semanticData")
    yield from _node(semantic, child(at, "nodeName"))
    seen: set[str] = set()
    for position, allocation in enumerate(semantic.get("allocations") or []):
        where = index(child(at, "allocations"), position)
        yield from _model(allocation, where, ("counter",))
        if allocation.get("counter") is not None:
            resource = semantic.get("resourceID") or ""
            yield from _counted(allocation["counter"], child(where, "counter"), resource, seen)


def _counted(counter: Object, path: str, resource: str, seen: set[str]) -> Iterator[FieldError]:
    """All counters of a handle are of one resource."""
    identifier, at = counter.get("resourceID") or "", child(path, "resourceID")
    if not identifier:
        yield required(at)
    elif resource and identifier != resource:
        yield invalid(at, identifier, "must be the `resourceID` of the handle")
    yield from _unique(counter.get("name") or "", child(path, "name"), seen)
    yield from _amount(counter, path, "count")


def _node(obj: Object, path: str) -> Iterator[FieldError]:
    if obj.get("nodeName"):
        yield from devices.subdomain(obj["nodeName"], path)
    else:
        yield required(path)


def _attribute(attribute: Object, path: str, names: set[str]) -> Iterator[FieldError]:
    yield from _unique(attribute.get("name") or "", child(path, "name"), names)
    yield from _model(attribute, path, _MODELS)
    yield from _amount(attribute.get("counter") or {}, child(path, "counter"), "count")
    metadata, at = attribute.get("metadata") or {}, child(path, "metadata")
    for kind in ("versions", "labels", "values"):
        seen: set[str] = set()
        for position, entry in enumerate(metadata.get(kind) or []):
            where = index(child(at, kind), position)
            yield from _unique(entry.get("name") or "", child(where, "name"), seen)
            if kind == "versions":
                yield from _version(entry.get("version") or "", child(where, "version"))


def _unique(name: str, path: str, seen: set[str]) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    elif name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _model(entry: Object, path: str, models: tuple[str, ...]) -> Iterator[FieldError]:
    given: list[Any] = [name for name in models if entry.get(name) is not None]
    if not given:
        yield required(path, _ONE_MODEL)
    elif len(given) > 1:
        yield invalid(path, given, SEVERAL)


def _amount(entry: Object, path: str, field: str) -> Iterator[FieldError]:
    if (entry.get(field) or 0) < 0:
        yield invalid(child(path, field), entry[field], NOT_NEGATIVE)


def _version(text: str, path: str) -> Iterator[FieldError]:
    if not SEMVER.fullmatch(text.removeprefix("v")):
        yield invalid(path, text, NOT_SEMVER)


def _selector_errors(expression: str, path: str, *, stored: bool) -> Iterator[FieldError]:
    from kubeskew.apimachinery.cel.semantic_metadata import compile_selector  # rare, and much to import

    yield from rules.compile_errors(compile_selector, expression, path, stored=stored)


class NodeSliceStrategy(structured_parameters.SliceStrategy):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(slice_errors(obj))


class ResourceClassStrategy(resourceclass.ResourceClassStrategy):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*super().validate(obj, ctx), *parameter_type_errors(obj)]


class ClaimParametersStrategy(structured_parameters.ClaimParametersStrategy):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_parameters_errors(obj))

    def validate_as_new(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(claim_parameters_errors(new, selectors_of(old)))


class ClaimStatusStrategy(resourceclaim.ClaimStatusStrategy):
    def handle_errors(self, handle: Object, path: str) -> Iterator[FieldError]:
        return handle_errors(handle, path)


class ClaimStrategy(resourceclaim.ClaimStrategy):
    status = ClaimStatusStrategy


def node_resource_slice_cells(subject: Subject) -> Cells:
    return {"NodeName": subject.text("nodeName"), "DriverName": subject.text("driverName")}
