"""Upper bounds for the costs of calls of the CEL standard library.

Source: github.com/google/cel-go/checker/cost.go (functionCost), as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Protocol

from kubeskew.apimachinery.cel.costs.actual_costs import REGEX, TRAVERSAL
from kubeskew.apimachinery.cel.costs.estimated_calls import Operand
from kubeskew.apimachinery.cel.costs.estimates import LARGEST, ONE, UNKNOWN, ZERO, CallEstimate, Entry, Range
from kubeskew.apimachinery.cel.parser.nodes import Call, Node

_Size = tuple[Range, Range | None]  # cost and size of the result


class Entries(Protocol):
    """The estimates of the keys and values of lists and maps, by node."""

    def entry(self, node: Node | None) -> Entry | None: ...

    def set_entry(self, node: Node, entry: Entry | None) -> None: ...


def _to_bytes(_: Operand | None, operands: list[Operand]) -> _Size:
    size = operands[0].size
    return size.scaled(TRAVERSAL), Range(size.low, min(size.high * 4, LARGEST))


def _to_string(_: Operand | None, operands: list[Operand]) -> _Size:
    size = operands[0].size
    return size.scaled(TRAVERSAL), Range(size.low // 4, size.high)


def _quoted(_: Operand | None, operands: list[Operand]) -> _Size:
    size = operands[0].size
    return size.scaled(TRAVERSAL), Range(size.low + 2, min(size.high * 2 + 2, LARGEST))


def _size(target: Operand | None) -> Range:
    return UNKNOWN if target is None else target.size


def _formatted(target: Operand | None, _: list[Operand]) -> _Size:
    return _size(target).scaled(TRAVERSAL), None


def _affix(_: Operand | None, operands: list[Operand]) -> _Size:
    return operands[0].size.scaled(TRAVERSAL), None


def _in_list(_: Operand | None, operands: list[Operand]) -> _Size:
    return operands[1].size.scaled(1), None


def _matches(target: Operand | None, operands: list[Operand]) -> _Size:
    text = (_size(target) + ONE).scaled(TRAVERSAL)
    return text * operands[0].size.scaled(REGEX), None


def _contains(target: Operand | None, operands: list[Operand]) -> _Size:
    return _size(target).scaled(TRAVERSAL) * operands[0].size.scaled(TRAVERSAL), None


def _compared(_: Operand | None, operands: list[Operand]) -> _Size:
    most = min(operands[0].size.high, operands[1].size.high)
    return Range(1 if most > 0 else 0, most).scaled(TRAVERSAL), None


_ORDERED = tuple(
    f"{word}_{kind}"
    for word in ("less", "less_equals", "greater", "greater_equals")
    for kind in ("string", "bytes")
)
_SIMPLE: Mapping[str, Callable[[Operand | None, list[Operand]], _Size]] = {
    "string_to_bytes": _to_bytes,
    "bytes_to_string": _to_string,
    "strings_quote": _quoted,
    "string_format": _formatted,
    "starts_with_string": _affix,
    "ends_with_string": _affix,
    "in_list": _in_list,
    "matches_string": _matches,
    "contains_string": _contains,
    **dict.fromkeys((*_ORDERED, "equals", "not_equals"), _compared),
}


def standard_estimate(
    entries: Entries,
    node: Call,
    overload: str,
    target: Operand | None,
    operands: list[Operand],
    costs: list[Range],
) -> CallEstimate:
    """Returns the estimate of a call by the standard rules, the costs of its arguments included."""
    arguments = reduce(Range.__add__, costs, ZERO)
    if overload in ("logical_and", "logical_or"):
        return CallEstimate(Range(costs[0].low, arguments.high))
    if overload == "conditional":
        return _conditional(entries, node, operands, costs)
    if overload in ("add_string", "add_bytes", "add_list"):
        return _added(entries, node, overload, operands, arguments)
    simple = _SIMPLE.get(overload)
    if simple is None:
        return CallEstimate(ONE + arguments)
    cost, size = simple(target, operands)
    return CallEstimate(cost + arguments, size)


def _conditional(entries: Entries, node: Call, operands: list[Operand], costs: list[Range]) -> CallEstimate:
    _, then, otherwise = operands
    one, other = entries.entry(then.node), entries.entry(otherwise.node)
    entries.set_entry(node, one.union(other) if one and other else None)
    return CallEstimate(costs[0] + costs[1].union(costs[2]), _known(then).union(_known(otherwise)))


def _known(operand: Operand) -> Range:
    return operand.known_size or Range(0, LARGEST)


def _added(
    entries: Entries, node: Call, overload: str, operands: list[Operand], arguments: Range
) -> CallEstimate:
    left, right = operands
    size = _known(left) + _known(right)
    one, other = entries.entry(left.node), entries.entry(right.node)
    entries.set_entry(node, one.union(other) if one and other else None)
    cost = ONE if overload == "add_list" else size.scaled(TRAVERSAL)
    return CallEstimate(cost + arguments, size)
