"""Checks of one value by itself: type, text, number, enumeration.

Each is a closure made once per schema: `check(value, path, errors) -> matches`, where `matches` is how many
checks held (upstream chooses the alternative of an anyOf with the most). Source: kube-openapi
pkg/validation/validate/{type,validator,values}.go, 1.36.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from kubeskew.apimachinery.cel.library.regular import regular_expression
from kubeskew.apimachinery.field import ErrorType
from kubeskew.apimachinery.go_numbers import float_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.features import SchemaFeatures
from kubeskew.apiserver.structuralschema import validation_errors, whole_numbers
from kubeskew.apiserver.structuralschema.formats import check_of, is_known
from kubeskew.apiserver.structuralschema.kinds import kind_of
from kubeskew.apiserver.structuralschema.paths import Path, dotted
from kubeskew.apiserver.structuralschema.validation_errors import ValidationError

Check: TypeAlias = Callable[[Any, Path, list[ValidationError]], int]
Bound: TypeAlias = Callable[[float, Path], ValidationError | None]

_LIMITS = (("multipleOf", "MultipleOf"), ("minimum", "Minimum boundary"), ("maximum", "Maximum boundary"))
_FLOAT32_MAX = 3.4028234663852886e38
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_PYTHON_TYPES = {"string": str, "boolean": bool, "object": dict, "array": list}


def types_of(props: Object) -> list[str]:
    """Returns the JSON types that a schema allows; empty for any."""
    if props.get("x-kubernetes-int-or-string"):
        return ["integer", "string"]
    return [props["type"]] if props.get("type") else []


def format_of(props: Object, features: SchemaFeatures) -> str:
    """Returns the format of a schema, if the release knows it."""
    name = props.get("format") or ""
    types = types_of(props)
    return name if name and is_known(name, types[0] if len(types) == 1 else "", features) else ""


def type_check(props: Object, features: SchemaFeatures) -> Check | None:
    """Returns the check of type and format; None if the schema has neither."""
    types, form = types_of(props), format_of(props, features)
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
        whole = kind == "number" and "integer" in types and whole_numbers.is_whole(value)
        fits = kind in types or whole or (kind == "integer" and "number" in types)
        if kind not in {"string", "array"} and form and not (fits or go == form):
            return validation_errors.wrong_type(path, form, go)
        if not numeric and form and kind in {"string", "array"}:
            return None  # a list passes for a text with a format: upstream's slip
        return None if fits else validation_errors.wrong_type(path, wanted, kind)

    return check


def text_check(props: Object) -> Check | None:
    """Returns the check of a string's length and pattern, which tells the first error only."""
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


def format_check(props: Object, features: SchemaFeatures) -> Check | None:
    """Returns the format of a string."""
    form = format_of(props, features)
    has_format = check_of(form) if form else None
    if has_format is None:
        return None

    def check(value: str, path: Path, errors: list[ValidationError]) -> int:
        if not has_format(value):
            errors.append(validation_errors.wrong_type(path, form, value))
        return 0

    return check


def enum_check(props: Object) -> Check | None:
    """Returns the check of membership; numbers are converted to the type of the allowed value first, as Go
    does.
    """
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


def number_check(props: Object, features: SchemaFeatures) -> Check | None:
    """Returns the check of a number: range of the format, multipleOf, minimum, maximum, in this order."""
    types, form = types_of(props), format_of(props, features)
    kind = types[0] if len(types) == 1 else ""
    ranged = form if kind else ""
    called = f"with format {form}" if form else "(default format)"
    if kind == "integer" and not ranged:
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
    """Returns a minimum or maximum. For an integer value it is cut to an integer, as Go does."""
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
        if whole:
            good = value % used == 0
        else:
            good = whole_numbers.is_whole(1 / used * value if used < 1 else value / used)
        if good:
            return None
        return validation_errors.invalid(path, value, f"in body should be a multiple of {float_text(used)}")

    return check
