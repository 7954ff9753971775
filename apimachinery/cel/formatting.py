"""`string.format`: the verbs %s %d %f %e %b %o %x %X.

Source: github.com/google/cel-go/ext/formatting.go.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from apimachinery.cel.errors import EvaluationError
from apimachinery.cel.times import Duration, Timestamp
from apimachinery.cel.values import TypeValue, type_name

_CLAUSE = re.compile(r"%(?:%|(\.[0-9]+)?([sdfebxXo])|(.?))", re.DOTALL)


def format_string(text: str, arguments: Sequence[Any]) -> str:
    """`text` with its clauses filled in; raises EvaluationError."""
    used = 0

    def clause(found: "re.Match[str]") -> str:
        nonlocal used
        precision, verb, unknown = found.groups()
        if found.group() == "%%":
            return "%"
        if unknown is not None:
            what = f'unrecognized formatting clause "{unknown}"' if unknown else "unexpected end of string"
            raise EvaluationError(f"could not parse formatting clause: {what}")
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        argument = arguments[used]
        used += 1
        try:
            return _VERBS[verb](argument, None if precision is None else int(precision[1:]))
        except _UnformattableError as problem:
            raise EvaluationError(f"error during formatting: {problem}") from None

    result = _CLAUSE.sub(clause, text)
    if used != len(arguments):
        raise EvaluationError(
            f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )
    return result


class _UnformattableError(Exception):
    pass


def _string(value: Any, _: int | None) -> str:
    return text_of(value)


def text_of(value: Any) -> str:
    """How `%s` shows a value."""
    from apimachinery.cel.standard import to_string

    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    if isinstance(value, Mapping):
        pairs = sorted(f"{text_of(key)}: {text_of(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bool | int | float | str | bytes | Duration | Timestamp):
        return to_string(value)
    raise _UnformattableError(
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
        f"durations, and timestamps, was given {type_name(value)}"
    )


def _integer(value: Any, _: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    raise _UnformattableError(f"decimal clause can only be used on integers, was given {type_name(value)}")


def _double(what: str, code: str) -> Callable[[Any, int | None], str]:
    def formatted(value: Any, precision: int | None) -> str:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _UnformattableError(
                f"{what} clause can only be used on doubles, was given {type_name(value)}"
            )
        number = float(value)
        if number != number or number in (float("inf"), float("-inf")):
            return _integer(number, None)
        return format(number, f".{6 if precision is None else precision}{code}")

    return formatted


def _binary(value: Any, _: int | None) -> str:
    if not isinstance(value, int):
        raise _UnformattableError(
            f"only integers and bools can be formatted as binary, was given {type_name(value)}"
        )
    return format(int(value), "b")


def _octal(value: Any, _: int | None) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _UnformattableError(f"octal clause can only be used on integers, was given {type_name(value)}")
    return format(value, "o")


def _hexadecimal(code: str) -> Callable[[Any, int | None], str]:
    def formatted(value: Any, _: int | None) -> str:
        if isinstance(value, int) and not isinstance(value, bool):
            return format(value, code)
        if isinstance(value, str | bytes):
            text = (value.encode() if isinstance(value, str) else value).hex()
            return text.upper() if code == "X" else text
        raise _UnformattableError(
            "only integers, byte buffers, and strings can be formatted as hex, was given " + type_name(value)
        )

    return formatted


_VERBS: Mapping[str, Callable[[Any, int | None], str]] = {
    "s": _string,
    "d": _integer,
    "f": _double("fixed-point", "f"),
    "e": _double("scientific", "e"),
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal("x"),
    "X": _hexadecimal("X"),
}
