"""Validates the schemas in a definition: structural form, and the parts of OpenAPI that they may use.

Sources: apiextensions-apiserver pkg/apiserver/schema/{validation,complete}.go, 1.36; apiextensions-apiserver
pkg/apis/apiextensions/validation/validation.go (ValidateCustomResourceDefinitionOpenAPISchema,
specStandardValidatorV3), 1.36; apiextensions-apiserver pkg/apis/apiextensions/validation/validation.go, 1.36.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from kubeskew.apimachinery.cel.library.patterns import regular_expression
from kubeskew.apimachinery.field import FieldError, forbidden, index, invalid, key, not_supported, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import conversion, formats, rule_validation
from kubeskew.apiserver.structuralschema.defaults import check_defaults
from kubeskew.apiserver.structuralschema.model import NEWEST, Structural
from kubeskew.apiserver.structuralschema.rule_validation import Context, RuleCompiler
from kubeskew.apiserver.structuralschema.validation_errors import child
from kubeskew.apiserver.structuralschema.values import types_of

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
_AT_ROOT: Final = (
    "Description", "Type", "Format", "Title", "Maximum", "ExclusiveMaximum", "Minimum", "ExclusiveMinimum",
    "MaxLength", "MinLength", "Pattern", "MaxItems", "MinItems", "UniqueItems", "MultipleOf", "Required",
    "Items", "Properties", "ExternalDocs", "Example", "XPreserveUnknownFields", "XValidations",
)  # fmt: skip
_NO_STRUCTURE: Final = (
    ("id", "id"), ("$schema", "schema"), ("$ref", "$ref"), ("definitions", "definitions"),
    ("additionalItems", "additionalItems"), ("patternProperties", "patternProperties"),
    ("dependencies", "dependencies"),
)  # fmt: skip


class Level(Enum):
    """Each value is the text for a missing type at that place."""

    ROOT = "must not be empty at the root"
    ITEM = "must not be empty for specified array items"
    FIELD = "must not be empty for specified object fields"


_INT_OR_STRING: Final = [{"type": "integer"}, {"type": "string"}]
_EMBEDDED_TYPE: Final = "must be object if x-kubernetes-embedded-resource is true"
_NESTED_ORDER: Final = ("anyOf", "allOf", "oneOf")
_FORBIDDEN_INSIDE: Final = (
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("externalDocs", "must be undefined to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
)
_FALSE_COUNTS: Final = {"default"}
_EMPTY_COUNTS: Final = {
    "additionalProperties", "default", "externalDocs", "x-kubernetes-list-type", "x-kubernetes-map-type",
}  # fmt: skip


def validate_structure(props: Object, path: str) -> list[FieldError]:
    """A structural schema has no errors; others are sorted by text."""
    return sorted((*_invariants(props, Level.ROOT, path), *_completeness(props, props, path, path)), key=str)


def _has(props: Object, name: str) -> bool:
    """Go's zero values count as set only in the fields of _EMPTY_COUNTS and _FALSE_COUNTS."""
    value = props.get(name)
    if value is None:
        return False
    return bool(value) or name in (_EMPTY_COUNTS if value in ({}, [], "") else _FALSE_COUNTS)


# --- what holds for every schema outside of junctors -----------------------------------------------------


def _invariants(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    items, extra = props.get("items"), props.get("additionalProperties")
    if props.get("type") == "array" and not isinstance(items, dict):
        yield required(child(path, "items"), "must be specified")
    if isinstance(items, dict):
        yield from _invariants(items, Level.ITEM, child(path, "items"))
    for name, below in (props.get("properties") or {}).items():
        yield from _invariants(below, Level.FIELD, key(child(path, "properties"), name))
    if extra is not None:
        if level is Level.ROOT:
            yield forbidden(child(path, "additionalProperties"), "must not be used at the root")
        if isinstance(extra, dict):
            yield from _invariants(extra, Level.FIELD, child(path, "additionalProperties"))
    yield from _extensions(props, path)
    any_of, all_of = props.get("anyOf") or [], props.get("allOf") or []
    yield from _value_validation(
        props,
        path,
        skip_any_of=any_of == _INT_OR_STRING,
        skip_first=bool(all_of) and all_of[0].get("anyOf") == _INT_OR_STRING,
    )
    yield from _type(props, level, path)
    yield from _meta_fields(props, level, path)


def _extensions(props: Object, path: str) -> Iterator[FieldError]:
    if props.get("x-kubernetes-int-or-string"):
        for name in ("x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"):
            if props.get(name):
                yield invalid(child(path, name), True, "must be false if x-kubernetes-int-or-string is true")


def _type(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    type_, at = props.get("type") or "", child(path, "type")
    embedded = bool(props.get("x-kubernetes-embedded-resource"))
    free = props.get("x-kubernetes-int-or-string") or props.get("x-kubernetes-preserve-unknown-fields")
    if embedded and type_ != "object":
        yield invalid(at, type_, _EMBEDDED_TYPE) if type_ else required(at, _EMBEDDED_TYPE)
    elif not type_ and not free:
        yield required(at, level.value)
    if embedded and props.get("additionalProperties") is not None:
        detail = "must not be used if x-kubernetes-embedded-resource is set"
        yield forbidden(child(path, "additionalProperties"), detail)
    if level is Level.ROOT and type_ not in {"", "object"}:
        yield invalid(at, type_, "must be object at the root")


def _meta_fields(props: Object, level: Level, path: str) -> Iterator[FieldError]:
    """Checks kind, apiVersion and metadata, which a schema may restrict and not define."""
    properties = props.get("properties") or {}
    embedded = bool(props.get("x-kubernetes-embedded-resource"))
    checked = level is Level.ROOT or embedded
    for name in ("kind", "apiVersion"):
        found = (properties.get(name) or {}).get("type") or ""
        if checked and name in properties and found != "string":
            yield invalid(f"{path}.properties[{name}].type", found, "must be string")
    metadata = properties.get("metadata")
    if metadata is not None:
        at = f"{path}.properties[metadata]"
        if checked and metadata.get("type") != "object":
            yield invalid(f"{at}.type", metadata.get("type") or "", "must be object")
        if level is Level.ROOT and _says_more(metadata):
            yield forbidden(
                at,
                "must not specify anything other than name and generateName, "
                "but metadata is implicitly specified",
            )
    if embedded and not props.get("x-kubernetes-preserve-unknown-fields") and not properties:
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields"
        )
        yield required(child(path, "properties"), detail)


def _says_more(metadata: Object) -> bool:
    names = set(metadata.get("properties") or {})
    allowed = {"type", "default"} | ({"properties"} if names <= {"name", "generateName"} else set())
    return any(name not in allowed and _has(metadata, name) for name in metadata)


# --- inside of junctors ----------------------------------------------------------------------------------


def _value_validation(
    props: Object, path: str, *, skip_any_of: bool = False, skip_first: bool = False
) -> Iterator[FieldError]:
    for name in _NESTED_ORDER:
        if name == "anyOf" and skip_any_of:
            continue
        for position, nested in enumerate(props.get(name) or []):
            first = name == "allOf" and skip_first and position == 0
            yield from _nested(nested, index(child(path, name), position), skip_any_of=first)
    if isinstance(props.get("not"), dict):
        yield from _nested(props["not"], child(path, "not"))
    pattern = props.get("pattern") or ""
    if pattern:
        try:
            regular_expression(pattern)
        except ValueError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield invalid(child(path, "pattern"), pattern, detail)


def _nested(props: Object, path: str, *, skip_any_of: bool = False) -> Iterator[FieldError]:
    yield from _value_validation(props, path, skip_any_of=skip_any_of)
    if isinstance(props.get("items"), dict):
        yield from _nested(props["items"], child(path, "items"))
    for name, below in (props.get("properties") or {}).items():
        yield from _nested(below, key(child(path, "properties"), name))
    for name, why in _FORBIDDEN_INSIDE:
        if _has(props, name):
            yield forbidden(child(path, name), why)
    if "metadata" in (props.get("properties") or {}):
        detail = "must not be specified in a nested context"
        yield forbidden(key(child(path, "properties"), "metadata"), detail)


# --- completeness: what junctors speak of is specified ---------------------------------------------------


def _completeness(validation: Object, spine: Any, at: str, path: str) -> Iterator[FieldError]:
    """Fields that a value validation (at `path`) names must be in the schema proper (at `at`)."""
    if not isinstance(spine, dict):
        yield required(at, f"because it is defined in {path}")
        return
    if isinstance(validation.get("not"), dict):
        yield from _nested_completeness(validation["not"], spine, at, child(path, "not"))
    for name in ("allOf", "anyOf", "oneOf"):
        for position, nested in enumerate(validation.get(name) or []):
            yield from _nested_completeness(nested, spine, at, index(child(path, name), position))


def _nested_completeness(nested: Object, spine: Any, at: str, path: str) -> Iterator[FieldError]:
    if not isinstance(spine, dict):
        yield required(at, f"because it is defined in {path}")
        return
    yield from _completeness(nested, spine, at, path)
    if isinstance(nested.get("items"), dict):
        yield from _nested_completeness(
            nested["items"], spine.get("items"), child(at, "items"), child(path, "items")
        )
    for name, below in (nested.get("properties") or {}).items():
        place, where = key(child(at, "properties"), name), key(child(path, "properties"), name)
        yield from _nested_completeness(below, (spine.get("properties") or {}).get(name), place, where)


@dataclass
class SchemaErrors:
    """Errors of rules are reported after those of the schema."""

    schema: list[FieldError] = field(default_factory=list)
    rules: list[FieldError] = field(default_factory=list)

    def add(self, other: "SchemaErrors") -> None:
        self.schema += other.schema
        self.rules += other.rules

    def all(self) -> list[FieldError]:
        return self.schema + self.rules


@dataclass(frozen=True, slots=True)
class Place:
    no_defaults: str | None = None  # why defaults are forbidden
    inside_metadata: bool = False
    uncorrelatable: str = ""  # the path below which old values cannot be found


def check_openapi(
    props: Object,
    path: str,
    compiler: RuleCompiler,
    context: Context | None,
    place: Place = Place(),
    *,
    root: bool = False,
) -> SchemaErrors:
    """`context` is None where rules are not looked at."""
    found = SchemaErrors([*_standard(props, path, place)])
    _check_below(props, path, compiler, context, place, root, found)
    found.schema += _extension_rules(props, path)
    rules = props.get("x-kubernetes-validations") or []
    # Paths are followed along structural schemas alone.
    followed = props if any(rule.get("fieldPath") for rule in rules) and not no_structure(props) else None
    found.schema += rule_validation.check_rule_texts(rules, path, followed, compiler.features)
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
        if _is_used(props, name):
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


def _is_used(props: Object, name: str) -> bool:
    """An empty schema counts as one, an empty map or text as none."""
    value = props.get(name)
    return value is not None and (name == "additionalItems" or value not in ("", {}))


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
        found.add(check_openapi(extra, child(path, "additionalProperties"), compiler, below, inside))
    for name, prop in properties.items():
        below = context.below(prop) if context else None
        at = key(child(path, "properties"), name)
        found.add(check_openapi(prop, at, compiler, below, _place_of(props, name, path, place, root)))
    if isinstance(props.get("not"), dict):
        found.add(check_openapi(props["not"], child(path, "not"), compiler, None, place))
    for name in ("allOf", "oneOf", "anyOf"):
        for position, schema in enumerate(props.get(name) or []):
            found.add(check_openapi(schema, index(child(path, name), position), compiler, None, place))
    for name in ("definitions", "dependencies"):
        for word, schema in (props.get(name) or {}).items():
            if isinstance(schema, dict):
                at = key(child(path, name), word)
                found.add(check_openapi(schema, at, compiler, None, place))
    _check_items(props, path, compiler, context, place, found)


def _check_items(
    props: Object,
    path: str,
    compiler: RuleCompiler,
    context: Context | None,
    place: Place,
    found: SchemaErrors,
) -> None:
    keyed = props.get("x-kubernetes-list-type") == "map"
    inside = place if keyed else replace(place, uncorrelatable=place.uncorrelatable or path)
    items, at = props.get("items"), child(path, "items")
    if isinstance(items, dict):
        schemas = [(at, items)]
    else:
        schemas = [(index(at, position), schema) for position, schema in enumerate(items or ())]
    for where, schema in schemas:
        below = context.below(schema) if context else None
        found.add(check_openapi(schema, where, compiler, below, inside))


def _place_of(props: Object, name: str, path: str, place: Place, root: bool) -> Place:
    if props.get("x-kubernetes-map-type") not in (None, "granular", "atomic"):
        place = replace(place, uncorrelatable=place.uncorrelatable or path)
    if name in _META and (root or props.get("x-kubernetes-embedded-resource")):
        place = replace(place, inside_metadata=True)
        if root:
            place = replace(place, no_defaults=f"in top-level {name}")
    return place


# --- x-kubernetes-… --------------------------------------------------------------------------------------


def _extension_rules(props: Object, path: str) -> Iterator[FieldError]:
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


def validate_definition(
    crd: Object, old: Object | None = None, features: SchemaFeatures = NEWEST
) -> list[FieldError]:
    """Errors are those of schemas alone.

    Where all versions say the same they are found at `spec.validation.openAPIV3Schema`, as upstream keeps it
    there; else at `spec.versions[i].schema.openAPIV3Schema`.
    """
    versions = _versions(crd)
    schemas = [_schema(version) for version in versions]
    if schemas and schemas[0] is not None and all(schema == schemas[0] for schema in schemas):
        with_status = any(_has_status(version) for version in versions)
        unchanged = old is not None and any(_schema(version) == schemas[0] for version in _versions(old))
        return _check(schemas[0], "spec.validation", with_status, old, unchanged, features)
    errors: list[FieldError] = []
    for position, version in enumerate(versions):
        if schemas[position] is None:
            detail = "schemas are required" if features.schemas_required else ""
            errors.append(required(f"spec.versions[{position}].schema.openAPIV3Schema", detail))
            continue
        unchanged = any(
            before.get("name") == version.get("name") and _schema(before) == schemas[position]
            for before in (_versions(old) if old is not None else ())
        )
        path = f"spec.versions[{position}].schema"
        errors += _check(schemas[position], path, _has_status(version), old, unchanged, features)
    return errors


def _versions(crd: Object) -> list[Object]:
    return (crd.get("spec") or {}).get("versions") or []


def _schema(version: Object) -> Any:
    return (version.get("schema") or {}).get("openAPIV3Schema")


def _has_status(version: Object) -> bool:
    return (version.get("subresources") or {}).get("status") is not None


def _check(
    props: Object, path: str, with_status: bool, old: Object | None, unchanged: bool, features: SchemaFeatures
) -> list[FieldError]:
    at = child(path, "openAPIV3Schema")
    errors = [*_root(props, at, with_status)]
    broken = no_structure(props)
    context: rule_validation.Context | None = None
    if broken is None:
        structure = validate_structure(props, at)
        structure = structure or check_defaults(Structural.of(props, features), at)
        errors += structure
        if not structure:
            context = rule_validation.Context(props, rule_validation.TotalCost(), root=True)
    compiler = RuleCompiler(features, known=_expressions(old), charges=not unchanged)
    errors += check_openapi(props, at, compiler, context, root=True).all()
    if broken is not None and not errors:
        errors.append(invalid(at, "", broken))
    if context is not None:
        errors += _total(context.total, at)
    return errors


def _root(props: Object, at: str, with_status: bool) -> Iterator[FieldError]:
    """With the status subresource, few fields are allowed: the status is validated by its part alone."""
    for name in conversion.go_set_fields(props) if with_status else ():
        if name == "Type" and props["type"] != "object":
            yield invalid(
                child(at, "type"),
                props["type"],
                'only "object" is allowed as the type at the root of the schema '
                "if the status subresource is enabled",
            )
            break
        if name not in _AT_ROOT:
            yield invalid(
                at,
                conversion.go_schema(props),
                f"only [{' '.join(_AT_ROOT)}] fields are allowed at the root of the schema "
                "if the status subresource is enabled",
            )
            break
    if props.get("nullable"):
        yield forbidden(child(at, "nullable"), "nullable cannot be true at the root")


def no_structure(props: Any) -> str | None:
    """Returns why no structural schema can be made of this; None if one can."""
    if not isinstance(props, dict):
        return None
    for name, shown in _NO_STRUCTURE:
        if _is_used(props, name):
            return f"OpenAPIV3Schema '{shown}' is not supported"
    if isinstance(props.get("items"), list) and props["items"]:
        return "OpenAPIV3Schema 'items' must be a schema, but is an array"
    if props.get("x-kubernetes-preserve-unknown-fields") is False:
        return "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined"
    for below in _below(props):
        why = no_structure(below)
        if why is not None:
            return why
    return None


def _below(props: Object) -> Iterator[Object]:
    yield from (props.get("properties") or {}).values()
    for name in ("items", "additionalProperties", "not"):
        if isinstance(props.get(name), dict):
            yield props[name]
    for name in ("allOf", "anyOf", "oneOf"):
        yield from props.get(name) or ()


def _expressions(old: Object | None) -> frozenset[str]:
    """Stored expressions may use all that the server knows."""
    found: set[str] = set()

    def collect(props: Any) -> None:
        if isinstance(props, dict):
            for rule in props.get("x-kubernetes-validations") or ():
                found.update(filter(None, (rule.get("rule"), rule.get("messageExpression"))))
            for below in _below(props):
                collect(below)

    for version in _versions(old) if old is not None else ():
        collect(_schema(version))
    return frozenset(found)


def has_defaults(spec: Object) -> bool:

    def found(props: Any) -> bool:
        if not isinstance(props, dict):
            return False
        return props.get("default") is not None or any(map(found, _below(props)))

    return any(found(_schema(version)) for version in spec.get("versions") or ())


def _total(total: rule_validation.TotalCost, at: str) -> Iterator[FieldError]:
    if total.cost <= rule_validation.DEFINITION_LIMIT:
        return
    for _, path in total.expensive:
        yield forbidden(
            path,
            "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema",
        )
    name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    yield forbidden(at, rule_validation.excess(name, total.cost, rule_validation.DEFINITION_LIMIT))


def warnings(crd: Object, features: SchemaFeatures = NEWEST) -> list[str]:
    """Formats that are not checked have a warning."""
    if not features.format_warnings:
        return []
    found: dict[str, None] = {}

    def collect(props: Any) -> None:
        if not isinstance(props, dict):
            return
        name, types = props.get("format") or "", types_of(props)
        if name and not formats.is_recognized(name, types[0] if len(types) == 1 else "", features):
            found[f'unrecognized format "{name}"'] = None
        for below in _below(props):
            collect(below)

    for version in _versions(crd):
        collect(_schema(version))
    return list(found)
