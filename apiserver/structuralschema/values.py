"""Validates values against a structural schema, with ratcheting against the values they replace.

Fields are found by name, items of map lists by their keys; items of other lists have no old value.

Each is a closure made once per schema: `check(value, path, errors) -> matches`, where `matches` is how many
checks held (upstream chooses the alternative of an anyOf with the most).

`check(value, old, path, errors) -> matches`. `old` is the value that this one was before, or `NOTHING` where
there is no such; what did not change since is not held against an object (ratcheting).

Sources: apiserver pkg/cel/common/{equality,maplist}.go, 1.36; kube-openapi
pkg/validation/validate/{type,validator,values}.go, 1.36; kube-openapi
pkg/validation/validate/{schema,schema_props,slice_validator,object_validator}.go and apiextensions-apiserver
pkg/apiserver/validation/ratcheting.go, 1.36.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from kubeskew.apimachinery.cel.library.patterns import regular_expression
from kubeskew.apimachinery.field import ErrorType
from kubeskew.apimachinery.go_formats import float_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import validation_errors
from kubeskew.apiserver.structuralschema.formats import check_of, is_known
from kubeskew.apiserver.structuralschema.validation_errors import Path, ValidationError, dotted, kind_of

NOTHING: Final = object()  # no value that this one could have been
_SCALARS = (bool, int, float, str)

Find = Callable[[Any], Any]  # the old item of a new one, or NOTHING
_LARGEST_EXACT = 2**53 - 1  # swag: the largest integer that JSON and float64 agree on
_EPSILON = 1e-9
Check: TypeAlias = Callable[[Any, Path, list[ValidationError]], int]
Bound: TypeAlias = Callable[[float, Path], ValidationError | None]

_LIMITS = (("multipleOf", "MultipleOf"), ("minimum", "Minimum boundary"), ("maximum", "Maximum boundary"))
_FLOAT32_MAX = 3.4028234663852886e38
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_PYTHON_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}
NodeCheck: TypeAlias = Callable[[Any, Any, Path, list[ValidationError]], int]

_NUMBERS = (int, float)
_PLAIN = frozenset(
    {"type", "description", "title", "default", "nullable", "example", "format", "externalDocs"}
)
_TYPE_META = frozenset({"apiVersion", "kind"})


def item_finder(props: Object) -> Callable[[Any], Find | None]:
    """The function takes the old list; it returns None unless that and the schema are of a map list."""
    keys = tuple(props.get("x-kubernetes-list-map-keys") or ())
    is_map = props.get("x-kubernetes-list-type") == "map" and bool(keys)

    def finder(old: Any) -> Find | None:
        if not is_map or not isinstance(old, list):
            return None
        known: dict[Any, Any] = {}
        for item in old:
            at = _key_of(item, keys)
            if at is not None:
                known.setdefault(at, item)

        def find(item: Any) -> Any:
            at = _key_of(item, keys)
            return known.get(at, NOTHING) if at is not None else NOTHING

        return find

    return finder


def _key_of(item: Any, keys: tuple[str, ...]) -> tuple[Any, ...] | None:
    if not isinstance(item, dict):
        return None
    values = [item.get(key) for key in keys]
    if any(not isinstance(value, _SCALARS) for value in values):
        return None
    return tuple((type(value), value) for value in values)


def equal(new: Any, old: Any) -> bool:
    """Types count: 1 is neither 1.0 nor true."""
    if type(new) is not type(old):
        return False
    if isinstance(new, dict):
        return new.keys() == old.keys() and all(equal(item, old[name]) for name, item in new.items())
    if isinstance(new, list):
        return len(new) == len(old) and all(map(equal, new, old))
    return bool(new == old)


def same(new: Any, old: Any, props: Object | None) -> bool:
    """The order of a map list does not count."""
    if isinstance(new, dict) and isinstance(old, dict):
        return len(new) == len(old) and all(_same_field(new, old, name, props) for name in new)
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and _same_items(new, old, props or {})
    return equal(new, old)


def _same_field(new: Object, old: Object, name: str, props: Object | None) -> bool:
    if name not in old or props is None:
        return False
    below = (props.get("properties") or {}).get(name)
    if below is None:
        extra = props.get("additionalProperties")
        below = extra if isinstance(extra, dict) else None
    if below is None:
        return False  # what the schema does not know cannot be compared: upstream takes it for changed
    return same(new[name], old[name], below)


def _same_items(new: list[Any], old: list[Any], props: Object) -> bool:
    find = item_finder(props)(old)
    if find is None:
        return equal(new, old)
    items = props.get("items")
    for item in new:
        before = find(item)
        if before is NOTHING or not same(item, before, items):
            return False
    return True


def is_whole(value: float) -> bool:
    """go-openapi takes these float64 for integers (swag.IsFloat64AJSONInteger)."""
    if not math.isfinite(value) or abs(value) > _LARGEST_EXACT:
        return False
    nearest = float(int(value))
    difference = abs(value - nearest)
    if value == nearest or value == math.floor(value):
        return True
    if value == 0 or nearest == 0 or difference < 5e-324:
        return difference < _EPSILON * 5e-324
    return difference / (abs(value) + abs(nearest)) < _EPSILON


def types_of(props: Object) -> list[str]:
    """An empty list stands for any type."""
    if props.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [props["type"]] if props.get("type") else []


@dataclass(frozen=True, slots=True)
class AnyFormat:
    """All formats count, as for defaults, not only those that the release knows."""

    features: SchemaFeatures


Formats = SchemaFeatures | AnyFormat


def format_of(props: Object, formats: Formats) -> str:
    """Returns the format that counts."""
    types = types_of(props)
    name = props.get("format") or ""
    if isinstance(formats, AnyFormat):
        return name
    return name if name and is_known(name, types[0] if len(types) == 1 else "", formats) else ""


def type_check(props: Object, formats: Formats) -> Check | None:
    """None if the schema has neither type nor format."""
    types, form = types_of(props), format_of(props, formats)
    if not types and not form:
        return None
    nullable, wanted = bool(props.get("nullable")), ",".join(types)
    simple = _PYTHON_TYPES.get(wanted) if not form else None
    numeric = "number" in types or "integer" in types

    def check(value: Any, path: Path, errors: list[ValidationError]) -> int:
        if type(value) is simple:
            return 1
        if value is None:
            error = None if nullable or not types else validation_errors.wrong_type(path, wanted, "null")
        else:
            error = _mismatch(value, path)
        if error is not None:
            errors.append(error)
            return 0
        return 1

    def _mismatch(value: Any, path: Path) -> ValidationError | None:
        kind, go = kind_of(value)
        whole = kind == "number" and "integer" in types and is_whole(value)
        fits = kind in types or whole or (kind == "integer" and "number" in types)
        if kind not in {"string", "array"} and form and not (fits or go == form):
            return validation_errors.wrong_type(path, form, go)
        if not numeric and form and kind in {"string", "array"}:
            return None  # a list passes for a text with a format: upstream's slip
        return None if fits else validation_errors.wrong_type(path, wanted, kind)

    return check


def text_check(props: Object) -> Check | None:
    """Only the first error of length and pattern is reported."""
    most, least, pattern = props.get("maxLength"), props.get("minLength"), props.get("pattern") or ""
    if most is None and least is None and not pattern:
        return None
    try:
        search = regular_expression(pattern).search if pattern else None
        pattern_shown = pattern
    except ValueError as error:  # stored by an older server
        search, pattern_shown = (lambda _: None), f"{pattern}, but pattern is invalid: {error}"

    def check(value: str, path: Path, errors: list[ValidationError]) -> int:
        if most is not None and len(value) > most:
            errors.append(validation_errors.too_long(path, most))
        elif least is not None and len(value) < least:
            errors.append(
                validation_errors.invalid(path, value, f"in body should be at least {least} chars long")
            )
        elif search is not None and search(value) is None:
            errors.append(validation_errors.invalid(path, value, f"in body should match '{pattern_shown}'"))
        return 0

    return check


def format_check(props: Object, formats: Formats) -> Check | None:
    """None if the schema has no string format that the release checks."""
    form = format_of(props, formats)
    has_format = check_of(form) if form else None
    if has_format is None:
        return None

    def check(value: str, path: Path, errors: list[ValidationError]) -> int:
        if not has_format(value):
            errors.append(validation_errors.wrong_type(path, form, value))
        return 0

    return check


def enum_check(props: Object) -> Check | None:
    """Numbers are first converted to the type of the allowed value, as in Go."""
    allowed = props.get("enum") or []
    if not allowed:
        return None
    texts = frozenset(text for text in allowed if isinstance(text, str))

    def check(value: Any, path: Path, errors: list[ValidationError]) -> int:
        if not (value in texts if type(value) is str else any(_is(value, choice) for choice in allowed)):
            errors.append(validation_errors.not_supported(path, value, allowed))
        return 0

    return check


def _is(value: Any, allowed: Any) -> bool:
    if value is None or allowed is None:
        return False  # null is never among the values, even where it is listed
    if isinstance(value, bool) or isinstance(allowed, bool):
        return value is allowed
    if isinstance(value, int | float) and isinstance(allowed, int | float):
        return (int(value) if isinstance(allowed, int) else float(value)) == allowed
    return type(value) is type(allowed) and bool(value == allowed)


# --- numbers ---------------------------------------------------------------------------------------------


_FORMATS_OF: Final = {"integer": ("int32", "int64"), "number": ("float", "double")}


def _features(formats: Formats) -> SchemaFeatures:
    return formats.features if isinstance(formats, AnyFormat) else formats


def number_check(props: Object, formats: Formats) -> Check | None:
    """The order is: range of the format, multipleOf, minimum, maximum."""
    types, form = types_of(props), format_of(props, formats)
    kind = types[0] if len(types) == 1 else ""
    ranged = form if form in _FORMATS_OF.get(kind, ()) else ""
    called = f"with format {ranged}" if ranged else "(default format)"
    features = _features(formats)
    if not features.numeric_formats:
        ranged = ""
    elif kind == "integer" and ranged not in _RANGES:
        ranged = "int64"
    bounds: list[tuple[str, Bound]] = []
    for name, prefix in _LIMITS:
        limit = props.get(name)
        if limit is not None:
            fits = not ranged or _in_range(limit, ranged)
            bounds.append(
                ("" if fits else prefix, _bound(props, name) if name != "multipleOf" else _multiple(limit))
            )
    if not ranged and not bounds:
        return None

    def check(value: float, path: Path, errors: list[ValidationError]) -> int:
        if ranged and not _in_range(value, ranged):
            errors.append(_out_of_range("Checked", kind, called, path))
        for unfit, bound in bounds:
            if unfit:
                errors.append(_out_of_range(unfit, kind, called, path))
            # As a general number, if the bound is none of the type.
            error = bound(float(value) if unfit else value, path)
            if error is not None:
                errors.append(error)
        return 1

    return check


def _in_range(value: float, form: str) -> bool:
    if form in _RANGES:
        least, most = _RANGES[form]
        return (isinstance(value, int) or value.is_integer()) and least <= value <= most
    return form != "float" or abs(value) <= _FLOAT32_MAX


def _out_of_range(prefix: str, kind: str, called: str, path: Path) -> ValidationError:
    return validation_errors.unplaced(f"{prefix} value must be of type {kind} {called} in {dotted(path)}")


def _bound(props: Object, name: str) -> Bound:
    """For an integer value the bound is cut to an integer, as in Go."""
    limit = props[name]
    upper = name == "maximum"
    exclusive = bool(props.get("exclusiveMaximum" if upper else "exclusiveMinimum"))
    words = ("less" if upper else "greater") + (" than" if exclusive else " than or equal to")
    sign = 1 if upper else -1

    def check(value: float, path: Path) -> ValidationError | None:
        used = int(limit) if kind_of(value)[0] == "integer" else float(limit)
        over = sign * (value - used)
        if over < 0 or (over == 0 and not exclusive):
            return None
        return validation_errors.invalid(path, value, f"in body should be {words} {float_text(used)}")

    return check


def _multiple(factor: float) -> Bound:
    def check(value: float, path: Path) -> ValidationError | None:
        whole = kind_of(value)[0] == "integer"
        used = int(factor) if whole else float(factor)  # 0.5 is 0 for an integer, as Go has it
        if used <= 0:
            text = f"factor MultipleOf declared for {dotted(path)} must be positive: {float_text(used)}"
            return ValidationError(text, ErrorType.INVALID, dotted(path), used, text)
        if value % used == 0 if whole else is_whole(1 / used * value if used < 1 else value / used):
            return None
        return validation_errors.invalid(path, value, f"in body should be a multiple of {float_text(used)}")

    return check


def compile_check(props: Object, formats: Formats, *, root: bool = False) -> NodeCheck:
    """At the root, apiVersion and kind never ratchet."""
    kind = type_check(props, formats)
    junctors = _junctors(props, formats)
    enum = enum_check(props)
    text = _both(text_check(props), format_check(props, formats))
    number = number_check(props, formats)
    lists = _list_check(props, formats)
    objects = _object_check(props, formats, root=root)
    # A format check counts only where there is one.
    texts_count = 2 + (format_check(props, formats) is not None)
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

    only = _only_type(props, formats)
    return check if only is None else _shortened(check, only, base + 2 + (only is str))


def _only_type(props: Object, formats: Formats) -> type | None:
    kinds = {"string": str, "boolean": bool}
    if format_of(props, formats) or not _PLAIN.issuperset(props):
        return None
    return kinds.get(props.get("type") or "")


def _shortened(check: NodeCheck, only: type, matches: int) -> NodeCheck:

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


def _list_check(props: Object, formats: Formats) -> NodeCheck | None:
    counts = _features(formats).counts_items
    items, most, least = props.get("items"), props.get("maxItems"), props.get("minItems")
    item = compile_check(items, formats) if isinstance(items, dict) else None
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
            errors.append(validation_errors.too_many(path, size, most, "items", counts=counts))
        return matches

    return check


def _object_check(props: Object, formats: Formats, *, root: bool) -> NodeCheck:
    counts = _features(formats).counts_items
    most, least = props.get("maxProperties"), props.get("minProperties")
    properties = {
        name: compile_check(prop, formats) for name, prop in (props.get("properties") or {}).items()
    }
    required: Sequence[str] = props.get("required") or ()
    extra = props.get("additionalProperties")
    additional = compile_check(extra, formats) if isinstance(extra, dict) else None
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
            errors.append(validation_errors.too_many(path, len(value), most, "properties", counts=counts))
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


def _junctors(props: Object, formats: Formats) -> NodeCheck | None:
    parts = [
        make([compile_check(prop, formats) for prop in props[name]])
        for name, make in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of))
        if props.get(name)
    ]
    if isinstance(props.get("not"), dict):
        parts.append(_not(compile_check(props["not"], formats)))
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
    said = {error.text for error in errors}
    errors.extend(error for error in more if error.text not in said)
