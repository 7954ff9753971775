"""Names and shows JSON values as messages do."""

from typing import Any

_LEAST, _MOST = -(2**63), 2**63 - 1


def kind_of(value: Any) -> tuple[str, str]:
    """Returns JSON type and Go format: `integer`, `int64`. Integers beyond 64 bits are float64, as in Go."""
    kind = type(value)
    if kind is str:
        return "string", ""
    if kind is bool:
        return "boolean", ""
    if kind is int and _LEAST <= value <= _MOST:
        return "integer", "int64"
    if kind is float or kind is int:
        return "number", "float64"
    if isinstance(value, dict):
        return "object", ""
    if isinstance(value, list):
        return "array", ""
    return ("null", "") if value is None else ("string", "")


def sorted_maps(value: Any) -> Any:
    """Returns the value with the keys of every map sorted, as Go writes maps into messages."""
    if isinstance(value, dict):
        return {name: sorted_maps(value[name]) for name in sorted(value)}
    return [sorted_maps(item) for item in value] if isinstance(value, list) else value
