"""Values of awk: numbers, strings, and input that may be either."""

import re

_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_FORMAT = re.compile(r"%(%|[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*)?)?(?:[hlLqjzt]*)([diouxXeEfFgGcs]))")
_LARGEST_WHOLE = 1e16


class Input(str):
    """A string from input; it counts as a number if it looks like one."""

    __slots__ = ()


Value = float | str


def number_of(value: Value | None) -> float:
    """Returns a value as a number: of a string, the number that it begins with."""
    if value is None:
        return 0.0
    if isinstance(value, float):
        return value
    found = _NUMBER.match(value)
    return float(found[0]) if found is not None else 0.0


def looks_numeric(text: str) -> bool:
    found = _NUMBER.match(text)
    return found is not None and not text[found.end() :].strip()


def text_of(value: Value | None, form: str = "%.6g") -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return str(value)
    if value == value and abs(value) < _LARGEST_WHOLE and value == int(value):
        return str(int(value))
    if value != value or value in {float("inf"), float("-inf")}:
        return {"nan": "nan", "inf": "inf", "-inf": "-inf"}[str(value)]
    if abs(value) >= _LARGEST_WHOLE and value == int(value):
        return str(int(value))
    return form % value


def is_true(value: Value | None) -> bool:
    if isinstance(value, Input):
        return bool(float(value)) if looks_numeric(value) else bool(value)
    if isinstance(value, str):
        return bool(value)
    return bool(value)


def compare(left: Value | None, right: Value | None) -> int:
    """Returns a number below, at or above zero; compares as numbers if both may be numbers, else as
    strings."""
    if _may_be_number(left) and _may_be_number(right):
        first, second = number_of(left), number_of(right)
        return (first > second) - (first < second)
    one, other = text_of(left), text_of(right)
    return (one > other) - (one < other)


def _may_be_number(value: Value | None) -> bool:
    if isinstance(value, Input):
        return looks_numeric(value)
    return value is None or isinstance(value, float)


def formatted(form: str, values: list[Value | None]) -> str:
    """Formats as printf does."""
    left = [*values]

    def shown(found: re.Match[str]) -> str:
        if found[1] == "%":
            return "%"
        spec, kind = found[0], found[2]
        while "*" in spec:
            spec = spec.replace("*", str(int(number_of(left.pop(0) if left else None))), 1)
        spec = re.sub(r"[hlLqjzt]+(?=[a-zA-Z]$)", "", spec)
        value = left.pop(0) if left else None
        if kind in "di":
            return f"{spec[:-1]}d" % int(number_of(value))
        if kind in "ouxX":
            return f"{spec[:-1]}{'d' if kind == 'u' else kind}" % int(number_of(value))
        if kind == "c":
            whole = isinstance(value, float)
            return f"{spec[:-1]}s" % (chr(int(number_of(value))) if whole else text_of(value)[:1])
        if kind == "s":
            return spec % text_of(value)
        return spec % number_of(value)

    return _FORMAT.sub(shown, form)
