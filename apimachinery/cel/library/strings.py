"""The strings extension of CEL by version, with `string.format`, and Kubernetes' regex library.

The verbs of `string.format` are %s %d %f %e %b %o %x %X.

Sources: github.com/google/cel-go/ext/strings.go (version 2 in Kubernetes), ext/formatting.go and
k8s.io/apiserver/pkg/cel/library/regex.go.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.library.patterns import compiled
from kubeskew.apimachinery.cel.overloads import Overload, overload
from kubeskew.apimachinery.cel.parser.nodes import ListLiteral, MapLiteral, Node
from kubeskew.apimachinery.cel.times import Duration, Timestamp
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.cel.values import TypeValue, type_name
from kubeskew.apimachinery.go_formats import quoted

T = TypeVar("T")

_CLAUSE = re.compile(r"%(?:%|(\.[0-9]+)?([sdfebxXo])|(.?))", re.DOTALL)
_SPACES = (  # Unicode's White_Space
    " \t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_QUOTED = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
    '"': '\\"',
}  # fmt: skip


class WrongArgumentError(EvaluationError):
    """A clause cannot show its argument; `node` is set if the argument's type alone shows the error."""

    def __init__(self, verb: str, name: str, node: Any = None) -> None:
        super().__init__(f"error during formatting: {_ONLY[verb]}, was given {name}")
        self.node = node


def format_string(text: str, arguments: Sequence[Any], *, times: str = "×") -> str:  # noqa: RUF001
    """Raises EvaluationError if an argument does not fit its clause; `times` stands in powers of ten."""

    def fill(verb: str, precision: int | None, argument: Any) -> str:
        if verb == "e":
            return _double(verb, argument, precision, times)
        return _VERBS[verb](verb, argument, precision)

    try:
        return _filled(text, arguments, fill, checked=False)
    except WrongArgumentError as error:
        raise EvaluationError(*error.args) from None


def check(text: str, arguments: Sequence[Node], type_of: Callable[[Node], Type]) -> None:
    """Raises EvaluationError if arguments of these types do not fit the clauses of `text`."""

    def clause(verb: str, _: int | None, argument: Node) -> str:
        unfit = _unfit_text(argument, type_of) if verb == "s" else argument
        if unfit is not None and not _is_one_of(type_of(unfit), _KINDS[verb]):
            raise WrongArgumentError(verb, type_of(unfit).name, unfit)
        return ""

    _filled(text, arguments, clause, checked=True)


def _unfit_text(node: Node, type_of: Callable[[Node], Type]) -> Node | None:
    """First node that `%s` cannot show: `node` itself or a part of it, if it is a literal list or map."""
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


def _filled(
    text: str, arguments: Sequence[T], fill: Callable[[str, int | None, T], str], *, checked: bool
) -> str:
    """Replaces each clause with what `fill` (verb, precision, argument) returns.

    When an expression is `checked`, arguments without a clause are an error.
    """
    used = 0

    def clause(found: "re.Match[str]") -> str:
        nonlocal used
        precision, verb, unknown = found.groups()
        if found.group() == "%%":
            return "%"
        missing = used >= len(arguments)
        if unknown == "" and (checked or not missing):
            raise EvaluationError("unexpected end of string")
        if missing:
            raise EvaluationError(f"index {used} out of range")
        if unknown is not None:
            what = f'unrecognized formatting clause "{unknown}"'
            raise EvaluationError(f"could not parse formatting clause: {what}")
        used += 1
        return fill(verb, None if precision is None else int(precision[1:]), arguments[used - 1])

    result = _CLAUSE.sub(clause, text)
    if checked and used != len(arguments):
        raise EvaluationError(
            f"too many arguments supplied to string.format (expected {used}, got {len(arguments)})"
        )
    return result


def _string(_verb: str, value: Any, _: int | None) -> str:
    return text_of(value)


def text_of(value: Any) -> str:
    """Formats for `%s`; what is in lists and maps is written as in an expression."""
    from kubeskew.apimachinery.cel.library.standard import to_string

    if value is None:
        return "null"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_part_of, value)) + "]"
    if isinstance(value, Mapping):
        pairs = sorted((_key_of(key), _part_of(item)) for key, item in value.items())
        return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
    if isinstance(value, bool | int | float | str | bytes | Duration | Timestamp):
        return to_string(value)
    raise WrongArgumentError("s", type_name(value))


def _part_of(value: Any) -> str:
    """Formats an item of a list, or a value of a map."""
    match value:
        case str():
            return quoted(value)
        case bytes():
            return f"b{quoted(text_of(value))}"
        case float():
            return f"{value:f}" if math.isfinite(value) else f'"{_infinite(value)}"'
        case Timestamp():
            return f"timestamp({quoted(text_of(value))})"
        case Duration():
            return f"duration({quoted(text_of(value))})"
        case None | bool() | int() | TypeValue() | list() | tuple() | Mapping():
            return text_of(value)
    raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")


def _key_of(key: Any) -> str:
    if not isinstance(key, str | bool | int):
        what = f"no formatting function for map key of type {type_name(key)}"
        raise EvaluationError(f"error during formatting: {what}")
    return _part_of(key)


def _infinite(number: float) -> str:
    return "NaN" if math.isnan(number) else "+Inf" if number > 0 else "-Inf"


def _integer(verb: str, value: Any, _: int | None) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(int(value))
    raise WrongArgumentError(verb, type_name(value))


_NAMED_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _double(verb: str, value: Any, precision: int | None, times: str = "") -> str:
    """Formats for `%f` and `%e` as it is done in English: with commas, and powers of ten."""
    number = _NAMED_NUMBERS.get(value) if isinstance(value, str) else value
    if not isinstance(number, float):
        raise WrongArgumentError(verb, type_name(value))
    digits = 6 if precision is None else precision
    if verb == "e":
        return f"{_scientific(number, times):>{digits}}"  # the precision is taken for the width
    return f"{number or 0.0:,.{digits}f}" if math.isfinite(number) else _without_end(number)


def _without_end(number: float) -> str:
    return "NaN" if math.isnan(number) else "∞" if number > 0 else "-∞"


def _scientific(number: float, times: str) -> str:
    if not math.isfinite(number):
        return _without_end(number)
    mantissa, _, exponent = f"{number or 0.0:e}".partition("e")
    power = int(exponent)
    shown = f"{'-' if power < 0 else ''}{abs(power):02}"
    return f"{mantissa}{times}10{shown.translate(_SUPERSCRIPT)}"


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


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise EvaluationError(f"index out of range: {position}")
    return text[position : position + 1]


def _from(text: str, offset: int, *, strict: bool) -> bool:
    """Returns whether a text can be searched from an offset; beyond its end that may be an error."""
    if offset < 0 or (strict and offset >= len(text)):
        raise EvaluationError(f"index out of range: {offset}")
    return offset < len(text)


def _index_of(text: str, part: str, offset: int = 0, *, strict: bool = False) -> int:
    if part == "":
        return offset
    return text.find(part, offset) if _from(text, offset, strict=strict) else -1


def _last_index_of(text: str, part: str, offset: int | None = None, *, strict: bool = False) -> int:
    if offset is None:
        return len(text) if part == "" else text.rfind(part)
    if part == "":
        return offset
    return text.rfind(part, 0, offset + len(part)) if _from(text, offset, strict=strict) else -1


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, *(() if end is None else (end,))):
        if not 0 <= position <= len(text):
            raise EvaluationError(f"index out of range: {position}")
    return text[start:end]


def _lower_ascii(text: str) -> str:
    return "".join(char.lower() if "A" <= char <= "Z" else char for char in text)


def _upper_ascii(text: str) -> str:
    return "".join(char.upper() if "a" <= char <= "z" else char for char in text)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    return text.replace(old, new, max(limit, -1))


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    if limit == 1:
        return [text]
    if separator == "":
        parts = list(text)
        cut = limit - 1
        return parts if limit < 0 or limit >= len(parts) else [*parts[:cut], "".join(parts[cut:])]
    return text.split(separator, -1 if limit < 0 else limit - 1)


def _join(items: Sequence[Any], separator: str = "") -> str:
    for item in items:
        if not isinstance(item, str):
            raise EvaluationError("no such overload")
    return separator.join(items)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(char, char) for char in text) + '"'


_VERSION_0: tuple[Overload, ...] = (
    overload("string.charAt(int) string", _char_at),
    overload("string.indexOf(string) int", _index_of, "string_index_of_string"),
    overload("string.indexOf(string,int) int", _index_of, "string_index_of_string_int"),
    overload("string.lastIndexOf(string) int", _last_index_of),
    overload("string.lastIndexOf(string,int) int", _last_index_of, "string_last_index_of_string_int"),
    overload("string.lowerAscii() string", _lower_ascii),
    overload("string.upperAscii() string", _upper_ascii),
    overload("string.replace(string,string) string", _replace),
    overload("string.replace(string,string,int) string", _replace),
    overload("string.split(string) list(string)", _split),
    overload("string.split(string,int) list(string)", _split),
    overload("string.substring(int) string", _substring),
    overload("string.substring(int,int) string", _substring),
    overload("string.trim() string", lambda text: text.strip(_SPACES)),
    overload("list(string).join() string", _join),
    overload("list(string).join(string) string", _join),
)
# Version 1 brought `format` and `quote`, version 2 joins lists of any type at run time; both since 1.29.
_VERSION_2: tuple[Overload, ...] = (
    overload("string.format(list(dyn)) string", format_string, "string_format"),
    overload("strings.quote(string) string", _quote, "strings_quote"),
)


SPACED_FORMAT = {
    "string_format": overload(
        "string.format(list(dyn)) string",
        partial(format_string, times=" × "),  # noqa: RUF001
        "string_format",
    )
}
STRICT_OFFSETS = {
    function.identity: function
    for function in (
        overload("string.indexOf(string) int", partial(_index_of, strict=True), "string_index_of_string"),
        overload(
            "string.indexOf(string,int) int", partial(_index_of, strict=True), "string_index_of_string_int"
        ),
        overload(
            "string.lastIndexOf(string,int) int",
            partial(_last_index_of, strict=True),
            "string_last_index_of_string_int",
        ),
    )
}


def strings(version: int) -> tuple[Overload, ...]:
    return _VERSION_0 if version == 0 else (*_VERSION_0, *_VERSION_2)


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return str(found.group(0)) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found: list[str] = []
    end = -1  # of the last match
    for match in compiled(pattern).finditer(text):
        if match.end() > match.start() or match.start() != end:  # as Go, no empty match right behind another
            found.append(match.group(0))
        end = match.end()
    return found if limit < 0 else found[:limit]


REGEX: tuple[Overload, ...] = (
    overload("string.find(string) string", _find),
    overload("string.findAll(string) list(string)", _find_all),
    overload("string.findAll(string,int) list(string)", _find_all),
)
