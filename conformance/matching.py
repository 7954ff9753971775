"""Assertion trees: does an object hold what a scenario expects of it?

Maps are subsets, lists have the same length and match item by item, scalars are equal; a key in parentheses
is a JMESPath expression of the object (`(length(spec.containers))`), whose value must match.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.conformance.bindings import evaluate, expression
from kubeskew.conformance.errors import UnfitValueError


def mismatches(expected: Any, found: Any, bindings: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """`path: expected X, found Y` for everything that differs."""
    if isinstance(expected, dict):
        yield from _in_map(expected, found, bindings, path)
    elif isinstance(expected, list):
        yield from _in_list(expected, found, bindings, path)
    else:
        wanted = evaluate(text, bindings) if (text := expression(expected)) else expected
        if isinstance(wanted, dict | list):
            yield from mismatches(wanted, found, bindings, path)
        elif wanted != found or isinstance(wanted, bool) != isinstance(found, bool):
            yield f"{path or 'value'}: expected {_show(wanted)}, found {_show(found)}"


def _in_map(expected: dict[str, Any], found: Any, bindings: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"{path or 'value'}: expected an object, found {_show(found)}"
        return
    for name, wanted in expected.items():
        where = f"{path}.{name}" if path else name
        try:
            inner = evaluate(text, bindings, found) if (text := expression(name)) else found.get(name)
        except UnfitValueError as error:
            yield f"{where}: {error}"
        else:
            yield from mismatches(wanted, inner, bindings, where)


def _in_list(expected: list[Any], found: Any, bindings: Mapping[str, Any], path: str) -> Iterator[str]:
    if not isinstance(found, list) or len(found) != len(expected):
        count = len(found) if isinstance(found, list) else _show(found)
        yield f"{path}: expected {len(expected)} items, found {count}"
        return
    for position, (wanted, item) in enumerate(zip(expected, found, strict=True)):
        yield from mismatches(wanted, item, bindings, f"{path}[{position}]")


def _show(value: Any) -> str:
    if value is None:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 200 else text[:200] + "…"
