"""Checks values against their schema: one closure per node, made once, collects errors.

`check(value, old, path, errors) -> matches`. `old` is the value that this one was before, or `NOTHING` where
there is no such; what did not change since is not held against an object (ratcheting). Source: kube-openapi
pkg/validation/validate/{schema,schema_props,slice_validator,object_validator}.go and apiextensions-apiserver
pkg/apiserver/validation/ratcheting.go, 1.36.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import scalars, validation_errors
from kubeskew.apiserver.structuralschema.correlation import NOTHING, item_finder, same
from kubeskew.apiserver.structuralschema.paths import Path
from kubeskew.apiserver.structuralschema.scalars import Check
from kubeskew.apiserver.structuralschema.validation_errors import ValidationError

NodeCheck: TypeAlias = Callable[[Any, Any, Path, list[ValidationError]], int]

_NUMBERS = (int, float)
_PLAIN = frozenset(
    {"type", "description", "title", "default", "nullable", "example", "format", "externalDocs"}
)
_TYPE_META = frozenset({"apiVersion", "kind"})


def compile_check(props: Object, features: SchemaFeatures, *, root: bool = False) -> NodeCheck:
    """Returns the check of a schema and everything below it. At the root, apiVersion and kind
    never ratchet.
    """
    kind = scalars.type_check(props, features)
    junctors = _junctors(props, features)
    enum = scalars.enum_check(props)
    text = _both(scalars.text_check(props), scalars.format_check(props, features))
    number = scalars.number_check(props, features)
    lists = _list_check(props, features)
    objects = _object_check(props, features, root=root)
    # A format check counts only where there is one.
    texts_count = 2 + (scalars.format_check(props, features) is not None)
    base = 3 + (kind is not None)  # final, junctors (twice), type

    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        before = len(errors)
        matches = kind(value, path, errors) if kind is not None else 0
        if value is None:
            if enum is not None:
                enum(value, path, errors)
        else:
            matches += base + 1  # and the enumeration, which always applies
            if junctors is not None:
                matches += junctors(value, old, path, errors)
            shape = type(value)
            if shape is str:
                matches += texts_count - 1
                if text is not None:
                    text(value, path, errors)
            elif shape in _NUMBERS:
                matches += 2 + (number(value, path, errors) - 1 if number is not None else 0)
            elif isinstance(value, list):
                matches += 2 + (lists(value, old, path, errors) if lists is not None else 0)
            if enum is not None:
                enum(value, path, errors)
            if isinstance(value, dict):
                matches += 1 + objects(value, old, path, errors)
        if len(errors) > before and old is not NOTHING and same(value, old, props):
            del errors[before:]
        return matches

    only = _only_type(props, features)
    return check if only is None else _shortened(check, only, base + 2 + (only is str))


def _only_type(props: Object, features: SchemaFeatures) -> type | None:
    """Returns the Python type of values that have nothing but a type to be checked, if there is one."""
    kinds = {"string": str, "boolean": bool}
    if scalars.format_of(props, features) or not _PLAIN.issuperset(props):
        return None
    return kinds.get(props.get("type") or "")


def _shortened(check: NodeCheck, only: type, matches: int) -> NodeCheck:
    """Returns `check` for values that are mostly of the type `only`, of which then nothing else is asked."""

    def shortened(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        return matches if type(value) is only else check(value, old, path, errors)

    return shortened


def _both(first: Check | None, second: Check | None) -> Check | None:
    if first is None or second is None:
        return first or second

    def check(value: Any, path: Path, errors: list[ValidationError]) -> int:
        return first(value, path, errors) + second(value, path, errors)

    return check


# --- lists and objects -----------------------------------------------------------------------------------


def _list_check(props: Object, features: SchemaFeatures) -> NodeCheck | None:
    items, most, least = props.get("items"), props.get("maxItems"), props.get("minItems")
    item = compile_check(items, features) if isinstance(items, dict) else None
    find = item_finder(props)
    if item is None and most is None and least is None:
        return None

    def check(value: list[Any], old: Any, path: Path, errors: list[ValidationError]) -> int:
        matches = 0
        if item is not None:
            before = find(old) if old is not NOTHING else None
            for position, element in enumerate(value):
                found = NOTHING if before is None else before(element)
                matches += item(element, found, (path, position), errors)
        size = len(value)
        if least is not None and size < least:
            errors.append(
                validation_errors.invalid(path, size, f"in body should have at least {least} items")
            )
        if most is not None and size > most:
            errors.append(validation_errors.too_many(path, size, most, "items"))
        return matches

    return check


def _object_check(props: Object, features: SchemaFeatures, *, root: bool) -> NodeCheck:
    most, least = props.get("maxProperties"), props.get("minProperties")
    properties = {
        name: compile_check(prop, features) for name, prop in (props.get("properties") or {}).items()
    }
    required: Sequence[str] = props.get("required") or ()
    extra = props.get("additionalProperties")
    additional = compile_check(extra, features) if isinstance(extra, dict) else None
    closed = extra is False
    looks = bool(properties) or additional is not None or closed

    def check(value: dict[str, Any], old: Any, path: Path, errors: list[ValidationError]) -> int:
        if least is not None and len(value) < least:
            errors.append(
                validation_errors.invalid(
                    path, len(value), f"in body should have at least {least} properties"
                )
            )
        if most is not None and len(value) > most:
            errors.append(validation_errors.too_many(path, len(value), most, "properties"))
        matches = 0
        if looks:
            before = old if isinstance(old, dict) else {}
            for name, entry in value.items():
                below = properties.get(name, additional)
                if below is not None:
                    found = NOTHING if root and name in _TYPE_META else before.get(name, NOTHING)
                    step = name if path is not None or name in properties else f".{name}"  # upstream's slip
                    matches += below(entry, found, (path, step), errors)
                elif closed:
                    errors.append(validation_errors.forbidden_property(path, name))
        errors.extend(validation_errors.required(path, name) for name in required if name not in value)
        return matches

    return check


# --- anyOf, oneOf, allOf, not ----------------------------------------------------------------------------


def _junctors(props: Object, features: SchemaFeatures) -> NodeCheck | None:
    parts = [
        make([compile_check(prop, features) for prop in props[name]])
        for name, make in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of))
        if props.get(name)
    ]
    if isinstance(props.get("not"), dict):
        parts.append(_not(compile_check(props["not"], features)))
    if not parts:
        return None

    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        return sum(part(value, old, path, errors) for part in parts)

    return check


def _any_of(checks: list[NodeCheck]) -> NodeCheck:
    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        best: list[ValidationError] = []
        most = -1
        for check in checks:
            found: list[ValidationError] = []
            matches = check(value, old, path, found)
            if not found:
                return matches
            if matches > most:
                best, most = found, matches
        errors.append(validation_errors.junctor(path, "must validate at least one schema (anyOf)"))
        _add(best, errors)
        return most

    return check


def _one_of(checks: list[NodeCheck]) -> NodeCheck:
    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        best: list[ValidationError] = []
        most, good, first = -1, 0, 0
        for check in checks:
            found: list[ValidationError] = []
            matches = check(value, old, path, found)
            if not found:
                first = first if good else matches
                good += 1
                best, most = [], 0
            elif not good and matches > most:
                best, most = found, matches
        if good == 1:
            return first
        why = f"Found {good} valid alternatives" if good else "Found none valid"
        errors.append(
            validation_errors.junctor(path, f"must validate one and only one schema (oneOf). {why}")
        )
        _add(best, errors)
        return max(most, 0)

    return check


def _all_of(checks: list[NodeCheck]) -> NodeCheck:
    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        total, good = 0, 0
        for check in checks:
            found: list[ValidationError] = []
            total += check(value, old, path, found)
            good += not found
            _add(found, errors)
        if good != len(checks):
            why = "" if good else ". None validated"
            errors.append(validation_errors.junctor(path, f"must validate all the schemas (allOf){why}"))
        return total

    return check


def _not(unwanted: NodeCheck) -> NodeCheck:
    def check(value: Any, old: Any, path: Path, errors: list[ValidationError]) -> int:
        found: list[ValidationError] = []
        unwanted(value, old, path, found)
        if not found:
            errors.append(validation_errors.junctor(path, "must not validate the schema (not)"))
        return 0

    return check


def _add(more: list[ValidationError], errors: list[ValidationError]) -> None:
    """Adds errors to a list, without those whose text it has."""
    said = {error.text for error in errors}
    errors.extend(error for error in more if error.text not in said)
