"""Checks beyond types: literals that cannot be read, lists and maps of mixed types, formats that do not fit.

Source: github.com/google/cel-go/cel/validator.go and ext/formatting.go, as of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.cel.checker.checker import Checked
from kubeskew.apimachinery.cel.errors import EvaluationError, Issue
from kubeskew.apimachinery.cel.library import formatting, temporal
from kubeskew.apimachinery.cel.library.kubernetes import SEMVER_COMPARISONS, version_of
from kubeskew.apimachinery.cel.library.regular import regular_expression
from kubeskew.apimachinery.cel.parser.nodes import (
    Call,
    Comprehension,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from kubeskew.apimachinery.cel.types import Type, unwrap_optional

_LITERALS: Mapping[str, tuple[int, Callable[[Any], object]]] = {
    "duration": (0, temporal.to_duration),
    "timestamp": (0, temporal.to_timestamp),
    "matches": (-1, regular_expression),
}


def wrong_literals(checked: Checked) -> Iterator[Issue]:
    """Yields an issue for each literal duration, timestamp and pattern that cannot be read."""
    for node in _calls(checked):
        if node.function not in _LITERALS or not node.arguments:
            continue
        place, read = _LITERALS[node.function]
        argument = node.arguments[place]
        if isinstance(argument, Literal):
            try:
                read(argument.value)
            except (ValueError, EvaluationError):
                yield Issue(argument.offset, f"invalid {node.function} argument")


def wrong_versions(checked: Checked) -> Iterator[Issue]:
    """Yields an issue for each literal that a version is compared with and that is none."""
    for node in _calls(checked):
        overloads = checked.overloads.get(node, ())
        if len(overloads) == 1 and overloads[0] in SEMVER_COMPARISONS:
            for argument in node.arguments:
                if isinstance(argument, Literal):
                    try:
                        version_of(argument.value)
                    except EvaluationError as error:
                        yield Issue(argument.offset, str(error))


def wrong_formats(checked: Checked) -> Iterator[Issue]:
    """Yields an issue for each call of `format` on literals that would always fail."""
    for node in _calls(checked):
        match node:
            case Call("format", (ListLiteral(items),), target=Literal(str(text))):
                try:
                    formatting.check(text, items, checked.types.__getitem__)
                except formatting.WrongArgumentError as wrong:
                    yield Issue(wrong.node.offset, str(wrong))
                except EvaluationError as error:
                    yield Issue(node.offset, str(error))


def mixed_aggregates(checked: Checked) -> Iterator[Issue]:
    """Yields an issue for each list and map of mixed types, except the arguments of formats."""
    waiting: list[Node] = [checked.root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Call) and node.function == "format":
            continue
        if isinstance(node, ListLiteral):
            first = next(_mismatches(checked, node.items, node.optional), None)
            yield from () if first is None else (first,)
        elif isinstance(node, MapLiteral):
            optional = frozenset(place for place, entry in enumerate(node.entries) if entry.optional)
            yield from _mismatches(checked, [entry.key for entry in node.entries], frozenset())
            yield from _mismatches(checked, [entry.value for entry in node.entries], optional)
        waiting += _children(node)


def _mismatches(
    checked: Checked, nodes: tuple[Node, ...] | list[Node], optional: frozenset[int]
) -> Iterator[Issue]:
    """Yields an issue for each node whose type differs from the first's."""
    expected: Type | None = None
    for place, node in enumerate(nodes):
        kind = checked.types[node]
        if place in optional:
            kind, _ = unwrap_optional(kind)
        if expected is None:
            expected = kind
        elif not _equivalent(expected, kind):
            yield Issue(node.offset, f"expected type '{expected.checked}' but found '{kind.checked}'")


def _equivalent(one: Type, other: Type) -> bool:
    return (
        one.kind == other.kind
        and (one.kind == "param" or one.name == other.name)
        and len(one.parameters) == len(other.parameters)
        and all(map(_equivalent, one.parameters, other.parameters))
    )


def _calls(checked: Checked) -> Iterator[Call]:
    return (node for node in checked.types if isinstance(node, Call))


def _children(node: Node) -> Iterator[Node]:
    match node:
        case Select():
            yield node.operand
        case Call():
            yield from node.arguments if node.target is None else (node.target, *node.arguments)
        case ListLiteral():
            yield from node.items
        case MapLiteral():
            for entry in node.entries:
                yield from (entry.key, entry.value)
        case ObjectLiteral():
            yield from (entry.value for entry in node.entries)
        case Comprehension():
            yield from (node.range, node.start, node.condition, node.step, node.result)
