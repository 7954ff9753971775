"""`string.format`: the verbs %s %d %f %e %b %o %x %X.

Source: github.com/google/cel-go/ext/formatting.go.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.parser.nodes import ListLiteral, MapLiteral, Node
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.cel.values import TypeValue, type_name

T = TypeVar("T")

_CLAUSE = re.compile(r"%(?:%|(\.[0-9]+)?([sdfebxXo])|(.?))", re.DOTALL)


class WrongArgumentError(EvaluationError):
    """A clause cannot show its argument; `node` is the argument's place, if its type alone shows the
    error."""

    def __init__(self, verb: str, name: str, node: Any = None) -> None:
        super().__init__(f"error during formatting: {_ONLY[verb]}, was given {name}")
        self.node = node


def format_string(text: str, arguments: Sequence[Any]) -> str:
    """`text` with its clauses filled in; raises EvaluationError."""
    return _filled(text, arguments, lambda verb, precision, argument: _VERBS[verb](verb, argument, precision))


def check(text: str, arguments: Sequence[Node], type_of: Callable[[Node], Type]) -> None:
    """Raise EvaluationError if the clauses of `text` could not be filled in with arguments of these types."""

    def clause(verb: str, _: int | None, argument: Node) -> str:
        unfit = _unfit_text(argument, type_of) if verb == "s" else argument
        if unfit is not None and not _is_one_of(type_of(unfit), _KINDS[verb]):
            raise WrongArgumentError(verb, type_of(unfit).name, unfit)
        return ""

    _filled(text, arguments, clause)


def _unfit_text(node: Node, type_of: Callable[[Node], Type]) -> Node | None:
    """Returns the first node in a literal list or map, or the node itself, that `%s` cannot show."""
    if not _is_one_of(type_of(node), _KINDS["s"]):
        return node
    inner: Iterable[Node] = ()
    if isinstance(node, ListLiteral):
        inner = node.items
    elif isinstance(node, MapLiteral):
        inner = (part for entry in node.entries for part in (entry.key, entry.value))
    return next((found for part in inner if (found := _unfit_text(part, type_of)) is not None), None)


def _is_one_of(kind: Type, kinds: frozenset[str]) -> bool:
    return kind.kind == "dyn" or kind.kind in kinds


def _filled(text: str, arguments: Sequence[T], fill: Callable[[str, int | None, T], str]) -> str:
    """Returns `text` with each clause replaced by what `fill` (verb, precision, argument) returns."""
    used = 0

    def clause(found: "re.Match[str]") -> str:
        nonlocal used
        precision, verb, unknown = found.groups()
        if found.group() == "%%":
            return "%"
        if unknown is not None:
            if not unknown:
                raise EvaluationError("unexpected end of string")
            what = f'unrecognized formatting clause "{unknown}"'
            raise EvaluationError(f"could not parse formatting clause: {what}")
        if used >= len(arguments):
            raise EvaluationError(f"index {used} out of range")
        used += 1
        return fill(verb, None if precision is None else int(precision[1:]), arguments[used - 1])

    result = _CLAUSE.sub(clause, text)
    if used != len(arguments):
        raise EvaluationError(
            f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )
    return result


def _string(_verb: str, value: Any, _: int | None) -> str:
    return text_of(value)


def text_of(value: Any) -> str:
    """Formats a value for `%s`."""
    from kubeskew.apimachinery.cel.library.standard import to_string

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
    raise WrongArgumentError("s", type_name(value))


def _integer(verb: str, value: Any, _: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    raise WrongArgumentError(verb, type_name(value))


def _double(verb: str, value: Any, precision: int | None) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WrongArgumentError(verb, type_name(value))
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return _integer(verb, number, None)
    return format(number, f".{6 if precision is None else precision}{verb}")


def _binary(verb: str, value: Any, _: int | None) -> str:
    if not isinstance(value, int):
        raise WrongArgumentError(verb, type_name(value))
    return format(int(value), "b")


def _octal(verb: str, value: Any, _: int | None) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongArgumentError(verb, type_name(value))
    return format(value, "o")


def _hexadecimal(verb: str, value: Any, _: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return format(value, verb)
    if isinstance(value, str | bytes):
        text = (value.encode() if isinstance(value, str) else value).hex()
        return text.upper() if verb == "X" else text
    raise WrongArgumentError(verb, type_name(value))


_VERBS: Mapping[str, Callable[[str, Any, int | None], str]] = {
    "s": _string,
    "d": _integer,
    "f": _double,
    "e": _double,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": _hexadecimal,
}
_HEX = "only integers, byte buffers, and strings can be formatted as hex"
_ONLY = {
    "s": "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, "
    "durations, and timestamps",
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "o": "octal clause can only be used on integers",
    "x": _HEX,
    "X": _HEX,
}
_INTEGERS = frozenset({"int", "uint"})
_DOUBLES = frozenset({"double", "string"})  # texts may be NaN or Infinity
_KINDS = {
    "s": _INTEGERS
    | {"list", "map", "double", "bool", "string", "timestamp", "bytes", "duration", "type", "null"},
    "d": _INTEGERS,
    "f": _DOUBLES,
    "e": _DOUBLES,
    "b": _INTEGERS | {"bool"},
    "o": _INTEGERS,
    "x": _INTEGERS | {"string", "bytes"},
    "X": _INTEGERS | {"string", "bytes"},
}
