"""Evaluates JSONPath as printer columns and selectable fields use it.

What is missing on the way gives no value, and so does a step that does not fit what it meets.
Source: k8s.io/client-go/util/jsonpath/{parser,jsonpath}.go, 1.36.
"""

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from kubeskew.apimachinery.go_formats import float_text
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.decoding import go_json

Step = Callable[[Any], Iterator[Any]]

_NAME = re.compile(r"(?:\\.|[^\s.\[\]$@{}\\])+")
_QUOTED = re.compile(r"'((?:\\.|[^'\\])*)'|\"((?:\\.|[^\"\\])*)\"")
_NUMBERS = re.compile(r"(-?\d*)(?::(-?\d*))?(?::(-?\d*))?")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>")
_MOST = 10_000  # values on the way: `..` after `..` finds the same ones again and again


class JSONPathError(ValueError):
    """The path cannot be read."""


class _NoResultError(Exception):
    """The path does not fit the object: the whole of it leads to nothing."""


class JSONPath:
    """Compiles a path such as `.spec.ports[*].name`; `values` follows it through an object."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._steps = _steps(text)

    def values(self, obj: Any) -> list[Any]:
        """Each step follows 10,000 values at most."""
        found = [obj]
        try:
            for step in self._steps:
                found = list(islice((value for node in found for value in step(node)), _MOST))
        except _NoResultError:
            return []
        return found


def text_of(value: Any) -> str:
    """Null is printed as `<no value>`, lists and maps as JSON."""
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict | list):
        return go_json.text_of(value)
    return float_text(value) if isinstance(value, float) else str(value)


def selected(obj: Object, path: JSONPath) -> str:
    values = path.values(obj)
    return text_of(values[0]) if values and values[0] is not None else ""


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    position = 1 if text[:1] in {"$", "@"} else 0
    while position < len(text):
        if text.startswith("..", position):
            steps.append(_everything_below)
            position += 1 if text[position + 2 : position + 3] not in {"[", ""} else 2
        elif text[position] == ".":
            position = _named(text, position + 1, steps)
        elif text[position] == "[":
            end = _closing(text, position)
            steps.append(_bracket(text[position + 1 : end].strip()))
            position = end + 1
        elif position == 0:
            position = _named(text, 0, steps)
        else:
            raise JSONPathError(f"unrecognized character in action: {text[position]!r}")
    return steps


def _named(text: str, position: int, steps: list[Step]) -> int:
    if text.startswith("*", position):
        steps.append(_children)
        return position + 1
    found = _NAME.match(text, position)
    if found is None:
        if position >= len(text) or text[position] == "[":
            return position
        raise JSONPathError(f"unrecognized character in action: {text[position]!r}")
    steps.append(_field(re.sub(r"\\(.)", r"\1", found[0])))
    return found.end()


def _closing(text: str, start: int) -> int:
    """Brackets in quotes do not count; raises JSONPathError if none ends it."""
    depth, position = 0, start
    while position < len(text):
        quoted = _QUOTED.match(text, position)
        if quoted is not None:
            position = quoted.end()
            continue
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        if depth == 0:
            return position
        position += 1
    raise JSONPathError("unterminated array")


def _bracket(inside: str) -> Step:
    if inside.startswith("?"):
        return _filter(inside)
    if inside in {"*", ""}:
        return _children
    steps = [_element(part.strip()) for part in _parts(inside)]
    return steps[0] if len(steps) == 1 else _union(steps)


def _parts(inside: str) -> list[str]:
    parts, start, quote = [], 0, ""
    for position, char in enumerate(inside):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char == ",":
            parts.append(inside[start:position])
            start = position + 1
    return [*parts, inside[start:]]


def _element(part: str) -> Step:
    quoted = _QUOTED.fullmatch(part)
    if quoted is not None:
        return _field(re.sub(r"\\(.)", r"\1", quoted[1] if quoted[1] is not None else quoted[2]))
    numbers = _NUMBERS.fullmatch(part)
    if numbers is None or part in {"", "-"}:
        raise JSONPathError(f"invalid array index {part}")
    return _range(*((int(group) if group else None) for group in numbers.groups()), single=":" not in part)


def _field(name: str) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _range(start: int | None, end: int | None, stride: int | None, *, single: bool) -> Step:
    def step(value: Any) -> Iterator[Any]:
        if value is None:
            return
        if not isinstance(value, list):
            raise _NoResultError
        size = len(value)
        first = _from_end(start or 0, size)
        last = first + 1 if single else _from_end(size if end is None else end, size)
        if last == first:
            return
        if not (0 <= first < size and first < last <= size) or (stride is not None and stride <= 0):
            raise _NoResultError
        yield from value[first : last : stride or 1]

    return step


def _from_end(position: int, size: int) -> int:
    return position + size if position < 0 else position


def _union(steps: list[Step]) -> Step:
    def step(value: Any) -> Iterator[Any]:
        for step in steps:
            yield from step(value)

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _everything_below(value: Any) -> Iterator[Any]:
    yield value
    for child in _children(value):
        if isinstance(child, dict | list):
            yield from _everything_below(child)


def _filter(inside: str) -> Step:
    said = inside[2:-1].strip()
    if not said or not inside.startswith("?(") or not inside.endswith(")"):
        raise JSONPathError("unterminated filter")
    sign = _OPERATOR.search(said, 1)
    after = said[sign.end() :].strip() if sign is not None else ""
    how = sign[0] if sign is not None and after else ""
    left = _operand(said[: sign.start()].strip() if sign is not None and after else said)
    right = _operand(after) if after else None

    def step(value: Any) -> Iterator[Any]:
        if value is None:
            return
        if not isinstance(value, list):
            raise _NoResultError
        for element in value:
            ours = left(element)
            if right is None:
                if ours:
                    yield element
                continue
            theirs = right(element)
            if ours and theirs and _compare(ours[0], how, theirs[0]):
                yield element

    return step


def _operand(text: str) -> Callable[[Any], list[Any]]:
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        constant: Any = quoted[1] if quoted[1] is not None else quoted[2]
        return lambda _: [constant]
    if text.startswith(("@", "$")):
        return JSONPath(text).values
    if text in {"true", "false"}:
        return lambda _: [text == "true"]
    try:
        number = float(text) if "." in text else int(text)
    except ValueError:
        return JSONPath(text).values
    return lambda _: [number]


_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _compare(ours: Any, how: str, theirs: Any) -> bool:
    """Compares values of one type; only numbers and texts have an order."""
    is_ordered = type(ours) in {int, float, str} or (type(ours) is bool and how in {"==", "!="})
    if type(ours) is not type(theirs) or not is_ordered or how not in _COMPARISONS:
        raise _NoResultError
    return bool(_COMPARISONS[how](ours, theirs))
