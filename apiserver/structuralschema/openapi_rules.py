"""Checks the parts that an OpenAPI schema of a definition may use, apart from being structural.

Source: apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go
(ValidateCustomResourceDefinitionOpenAPISchema, specStandardValidatorV3), 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from kubeskew.apimachinery.field import FieldError, forbidden, index, invalid, key, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema import rule_texts
from kubeskew.apiserver.structuralschema.costs import Context
from kubeskew.apiserver.structuralschema.paths import child
from kubeskew.apiserver.structuralschema.rule_compiling import RuleCompiler

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_META: Final = frozenset({"apiVersion", "kind", "metadata"})
_UNSUPPORTED: Final = (
    "id",
    "additionalItems",
    "patternProperties",
    "definitions",
    "dependencies",
    "$ref",
)
_SHOWN_MAX: Final = 1 << 20  # characters of list keys in all errors of a kind; ours
_ATOMIC_ITEM: Final = "must be atomic as item of a list with x-kubernetes-list-type=set"


@dataclass
class SchemaErrors:
    """Holds errors of the schema, and those of its rules, which are told after them."""

    schema: list[FieldError] = field(default_factory=list)
    rules: list[FieldError] = field(default_factory=list)

    def add(self, other: "SchemaErrors") -> None:
        self.schema += other.schema
        self.rules += other.rules

    def all(self) -> list[FieldError]:
        return self.schema + self.rules


@dataclass(frozen=True, slots=True)
class Place:
    """Holds the restrictions of a place in the schema that come from the schemas above it."""

    no_defaults: str | None = None  # why defaults are forbidden
    inside_metadata: bool = False
    uncorrelatable: str = ""  # the path below which old values cannot be found


def check(
    props: Object,
    path: str,
    compiler: RuleCompiler,
    context: Context | None,
    place: Place = Place(),
    *,
    root: bool = False,
) -> SchemaErrors:
    """Returns errors of a schema and everything below; `context` is None where rules are not looked at."""
    found = SchemaErrors([*_standard(props, path, place)])
    _check_below(props, path, compiler, context, place, root, found)
    found.schema += _extensions(props, path)
    rules = props.get("x-kubernetes-validations") or []
    found.schema += rule_texts.check(rules, path, props)
    if rules and not found.schema and context is not None:
        found.rules += compiler.check(props, path, context, place.uncorrelatable)
    return found


def _standard(props: Object, path: str, place: Place) -> Iterator[FieldError]:
    type_ = props.get("type") or ""
    if type_ and type_ not in _TYPES:
        yield not_supported(child(path, "type"), type_, _TYPES)
    if props.get("default") is not None and place.no_defaults is not None:
        yield forbidden(child(path, "default"), f"must not be set {place.no_defaults}".rstrip())
    for name in _UNSUPPORTED:
        if props.get(name) not in (None, "", {}):
            yield forbidden(child(path, name), f"{name} is not supported")
    if type_ == "null":
        yield forbidden(child(path, "type"), "type cannot be set to null, use nullable as an alternative")
    if isinstance(props.get("items"), list) and props["items"]:
        yield forbidden(child(path, "items"), "items must be a schema object and not an array")
    if place.inside_metadata and props.get("x-kubernetes-embedded-resource"):
        at = child(path, "x-kubernetes-embedded-resource")
        yield forbidden(at, "must not be used inside of resource meta")
    if props.get("uniqueItems"):
        yield forbidden(
            child(path, "uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )


def _check_below(
    props: Object,
    path: str,
    compiler: RuleCompiler,
    context: Context | None,
    place: Place,
    root: bool,
    found: SchemaErrors,
) -> None:
    extra, properties = props.get("additionalProperties"), props.get("properties") or {}
    if extra is not None and properties and extra is not True:
        found.schema.append(
            forbidden(
                child(path, "additionalProperties"),
                "additionalProperties and properties are mutual exclusive",
            )
        )
    if isinstance(extra, dict):
        inside = (
            replace(place, no_defaults="inside additionalProperties applying to object metadata")
            if place.inside_metadata
            else place
        )
        below = context.below(extra) if context else None
        found.add(check(extra, child(path, "additionalProperties"), compiler, below, inside))
    for name, prop in properties.items():
        below = context.below(prop) if context else None
        at = key(child(path, "properties"), name)
        found.add(check(prop, at, compiler, below, _place_of(props, name, path, place, root)))
    if isinstance(props.get("not"), dict):
        found.add(check(props["not"], child(path, "not"), compiler, None, place))
    for name in ("allOf", "oneOf", "anyOf"):
        for position, schema in enumerate(props.get(name) or []):
            found.add(check(schema, index(child(path, name), position), compiler, None, place))
    if isinstance(props.get("items"), dict):
        keyed = props.get("x-kubernetes-list-type") == "map"
        inside = place if keyed else replace(place, uncorrelatable=place.uncorrelatable or path)
        below = context.below(props["items"]) if context else None
        found.add(check(props["items"], child(path, "items"), compiler, below, inside))


def _place_of(props: Object, name: str, path: str, place: Place, root: bool) -> Place:
    if props.get("x-kubernetes-map-type") not in (None, "granular", "atomic"):
        place = replace(place, uncorrelatable=place.uncorrelatable or path)
    if name in _META and (root or props.get("x-kubernetes-embedded-resource")):
        place = replace(place, inside_metadata=True)
        if root:
            place = replace(place, no_defaults=f"in top-level {name}")
    return place


# --- x-kubernetes-… --------------------------------------------------------------------------------------


def _extensions(props: Object, path: str) -> Iterator[FieldError]:
    if props.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid(child(path, "x-kubernetes-preserve-unknown-fields"), False, "must be true or undefined")
    map_type = props.get("x-kubernetes-map-type")
    if map_type is not None:
        yield from _wants_type(props, path, "object", "x-kubernetes-map-type")
        if map_type not in ("atomic", "granular"):
            yield not_supported(child(path, "x-kubernetes-map-type"), map_type, ["atomic", "granular"])
    list_type = props.get("x-kubernetes-list-type")
    if list_type is not None and props.get("type") != "array":
        yield from _wants_type(props, path, "array", "x-kubernetes-list-type")
    elif list_type == "set" and isinstance(props.get("items"), dict):
        yield from _set_items(props["items"], child(path, "items"))
    if list_type is not None and list_type not in ("atomic", "set", "map"):
        yield not_supported(child(path, "x-kubernetes-list-type"), list_type, ["atomic", "set", "map"])
    keys = props.get("x-kubernetes-list-map-keys") or []
    if keys and list_type != "map":
        at, why = (
            child(path, "x-kubernetes-list-type"),
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )
        yield required(at, why) if list_type is None else invalid(at, list_type, why)
    if list_type == "map":
        yield from _map_list(props, keys, path)
    if list_type in ("map", "set") and isinstance(props.get("items"), dict):
        yield from _keyed_items(props["items"], list_type, keys, child(path, "items"))


def _wants_type(props: Object, path: str, wanted: str, because: str) -> Iterator[FieldError]:
    type_, why = props.get("type") or "", f"must be {wanted} if {because} is specified"
    if type_ != wanted:
        at = child(path, "type")
        yield invalid(at, type_, why) if type_ else required(at, why)


def _set_items(items: Object, path: str) -> Iterator[FieldError]:
    inner = items.get("x-kubernetes-list-type")
    if items.get("type") == "array" and inner not in (None, "atomic"):
        yield invalid(child(path, "x-kubernetes-list-type"), inner, _ATOMIC_ITEM)
    if items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid(child(path, "x-kubernetes-map-type"), inner, _ATOMIC_ITEM)


def _map_list(props: Object, keys: list[str], path: str) -> Iterator[FieldError]:
    items, at = props.get("items"), child(path, "items")
    keys_at = child(path, "x-kubernetes-list-map-keys")
    if not keys:
        yield required(keys_at, "must not be empty if x-kubernetes-list-type is map")
    if items is None:
        yield required(at, "must have a schema if x-kubernetes-list-type is map")
    elif not isinstance(items, dict):
        yield invalid(at, items, "must only have a single schema if x-kubernetes-list-type is map")
    elif items.get("type") != "object":
        yield invalid(
            child(at, "type"),
            items.get("type") or "",
            "must be object if parent array's x-kubernetes-list-type is map",
        )
    else:
        seen: set[str] = set()
        most = max(1, _SHOWN_MAX // max(1, sum(map(len, keys))))  # errors of a kind, each shows all keys
        nameless = repeated = 0
        for name in keys:
            below = (items.get("properties") or {}).get(name)
            if below is None:
                nameless += 1
                if nameless <= most:
                    yield invalid(keys_at, keys, "entries must all be names of item properties")
            elif below.get("type") in ("array", "object"):
                yield invalid(
                    f"{key(child(at, 'properties'), name)}.type",
                    items["type"],
                    "must be a scalar type if parent array's x-kubernetes-list-type is map",
                )
            if name in seen:
                repeated += 1
                if repeated <= most:
                    yield invalid(keys_at, keys, "must not contain duplicate entries")
            seen.add(name)


def _keyed_items(items: Object, list_type: str, keys: list[str], path: str) -> Iterator[FieldError]:
    if items.get("nullable"):
        yield forbidden(
            child(path, "nullable"), f"cannot be nullable when x-kubernetes-list-type is {list_type}"
        )
    for name in keys if list_type == "map" else ():
        below = (items.get("properties") or {}).get(name)
        if below is None:
            continue
        at, why = (
            key(child(path, "properties"), name),
            "this property is in x-kubernetes-list-map-keys, so it",
        )
        if name not in (items.get("required") or ()) and below.get("default") is None:
            yield required(child(at, "default"), f"{why} must have a default or be a required property")
        if below.get("nullable"):
            yield forbidden(child(at, "nullable"), f"{why} cannot be nullable")
