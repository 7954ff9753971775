"""Assertion trees compare an object with what a scenario expects of it.

Maps are subsets, lists have the same length and match item by item, scalars are equal; a key in parentheses
is a JMESPath expression of the object (`(length(spec.containers))`), whose value must match;
`conformance/chainsaw.py` has the other forms of a key.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.conformance.bindings import evaluate
from kubeskew.conformance.chainsaw import Key, expression, parse_key, unescaped
from kubeskew.conformance.errors import UnfitValueError


def mismatches(expected: Any, found: Any, bindings: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Each difference reads `path: expected X, found Y`."""
    if isinstance(expected, dict):
        yield from _in_map(expected, found, bindings, path)
    elif isinstance(expected, list):
        yield from _in_list(expected, found, bindings, path)
    else:
        wanted = expected
        if isinstance(expected, str):
            text = expression(expected)
            try:
                wanted = unescaped(expected) if text is None else evaluate(text, bindings, found)
            except UnfitValueError as error:
                yield f"{path or 'value'}: {error}"
                return
        if isinstance(wanted, dict | list):
            yield from mismatches(wanted, found, bindings, path)
        elif wanted != found or isinstance(wanted, bool) != isinstance(found, bool):
            yield f"{path or 'value'}: expected {_show(wanted)}, found {_show(found)}"


def _in_map(expected: dict[str, Any], found: Any, bindings: Mapping[str, Any], path: str) -> Iterator[str]:
    """Keys that are all expressions may also hold of something that is no object, or of null."""
    keys = {name: parse_key(name) for name in expected}
    differences = _by_key(keys, expected, found, bindings, path)
    if not isinstance(found, dict) and not all(key.is_expression for key in keys.values()):
        yield f"{path or 'value'}: expected an object, found {_show(found)}"
    elif found is None:
        if any(True for _ in differences):
            yield f"{path or 'value'}: expected an object, found nothing"
    else:
        yield from differences


def _by_key(
    keys: Mapping[str, Key], expected: dict[str, Any], found: Any, bindings: Mapping[str, Any], path: str
) -> Iterator[str]:
    for name, key in keys.items():
        where = f"{path}.{name}" if path else name
        try:
            inner = evaluate(key.text, bindings, found) if key.is_expression else found.get(key.text)
        except UnfitValueError as error:
            yield f"{where}: {error}"
        else:
            yield from _below(key, expected[name], inner, bindings, where)


def _below(key: Key, wanted: Any, inner: Any, bindings: Mapping[str, Any], where: str) -> Iterator[str]:
    """A difference in any item counts where every item is meant."""
    bound = {**bindings, key.binding: inner} if key.binding else bindings
    if not key.of_each:
        yield from mismatches(wanted, inner, bound, where)
        return
    if not isinstance(inner, list | dict):
        yield f"{where}: expected items, found {_show(inner)}"
        return
    items = inner.items() if isinstance(inner, dict) else enumerate(inner)
    for place, item in items:
        own = {**bound, key.place: place} if key.place else bound
        yield from mismatches(wanted, item, own, f"{where}[{place}]")


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
