"""Upper bounds for the costs of calls of Kubernetes' and cel-go's libraries.

Source: k8s.io/apiserver/pkg/cel/library/cost.go and github.com/google/cel-go/ext (lists.go, sets.go), as of
Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Protocol

from kubeskew.apimachinery.cel.costs.actual_costs import CHECK, LIST, OBJECT, REGEX, TRAVERSAL
from kubeskew.apimachinery.cel.costs.estimates import LARGEST, ONE, CallEstimate, Range, fixed
from kubeskew.apimachinery.cel.parser.nodes import Literal, Node
from kubeskew.apimachinery.cel.types import Type

_FORMAT = 64  # characters of a format's name
_FORMAT_REGEX = 128


class Operand(Protocol):
    """A target or an argument: its node, type and size as far as known."""

    @property
    def node(self) -> Node | None: ...

    @property
    def type(self) -> Type: ...

    @property
    def size(self) -> Range: ...

    @property
    def known_size(self) -> Range | None: ...

    def element(self) -> "Operand | None": ...


# Gets the target (None for a function) and the arguments.
Estimator = Callable[[Operand | None, list[Operand]], CallEstimate | None]


def _constant(cost: int) -> Estimator:
    return lambda _target, _arguments: CallEstimate(fixed(cost))


def _text(factor: float, *, sized: bool = False) -> Estimator:
    """A traversal of the first argument."""

    def estimate(_: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
        if not arguments:
            return None
        size = arguments[0].size
        return CallEstimate(size.scaled(factor), size if sized else None)

    return estimate


def _target_text(target: Operand | None, _: list[Operand]) -> CallEstimate | None:
    return None if target is None else CallEstimate(target.size.scaled(TRAVERSAL), target.size)


def _traversed(target: Operand | None, _: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    element = target.element()
    if element is None:
        return CallEstimate(target.size.scaled(TRAVERSAL))
    each = ONE
    if element.type.kind in ("string", "bytes"):
        each = each + element.size.scaled(TRAVERSAL)
    return CallEstimate(target.size * each)


def _replace(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None or len(arguments) < 2:
        return None
    size, old, new = target.size, arguments[0].size, arguments[1].size
    most, kept_most = 0, 0
    if old.low == 0:
        most, kept_most = min(size.high + 1, LARGEST), size.high
    elif new.high <= old.low:
        kept_most = size.high
    else:
        most = ceil(float(size.high) / float(old.low))
    least, kept_least = 0, 0
    if old.high == 0:
        least, kept_least = min(size.low + 1, LARGEST), size.low
    elif old.high <= new.low:
        kept_least = size.low
    else:
        least = ceil(float(size.low) / float(old.high))
    result = Range(least, min(most, LARGEST)) * new + Range(kept_least, kept_most)
    return CallEstimate(size.scaled(2 * TRAVERSAL), result)


def _split(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    most = target.size.high
    if len(arguments) > 1:
        limit = arguments[1].node
        if isinstance(limit, Literal) and isinstance(limit.value, int):
            most = limit.value % 2**64
    return CallEstimate(target.size.scaled(2 * TRAVERSAL), Range(0, most))


def _join(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    items, element = target.size, target.element()
    size = fixed(0) if element is None else items * element.size
    if arguments:
        size = size + arguments[0].size * Range(max(items.low - 1, 0), max(items.high - 1, 0))
    return CallEstimate(size.scaled(TRAVERSAL), size)


def _find(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None or not arguments:
        return None
    text = (target.size + ONE).scaled(TRAVERSAL)
    return CallEstimate(text * arguments[0].size.scaled(REGEX), Range(0, target.size.high))


def _ip(_: Operand | None, arguments: list[Operand]) -> CallEstimate:
    return CallEstimate(arguments[0].size.scaled(TRAVERSAL) if arguments else ONE)


_ADDRESS = Range(4, 16)  # bytes


def _contains(whole_network: bool) -> Estimator:
    def estimate(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
        if target is None or not arguments:
            return None
        cost = (_ADDRESS + _ADDRESS).scaled(TRAVERSAL)
        if whole_network:
            cost = cost + _ADDRESS.scaled(TRAVERSAL) + ONE
        if arguments[0].type.kind == "string":
            cost = cost + arguments[0].size.scaled(TRAVERSAL)
        return CallEstimate(cost)

    return estimate


def _validate(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    return CallEstimate(arguments[0].size.scaled(TRAVERSAL).scaled(_FORMAT_REGEX * REGEX))


def _selector(_: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if len(arguments) != 1:
        return None
    length = arguments[0].size
    return CallEstimate(fixed(LIST) + length.scaled(TRAVERSAL) + length.scaled(0.5).scaled(LIST + OBJECT))


_CHEAP_EQUALITY = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
    | {f"kubernetes.authorization.{name}" for name in ("Authorizer", "PathCheck", "GroupCheck")}
    | {f"kubernetes.authorization.{name}" for name in ("ResourceCheck", "Decision")}
)


def _equals(_: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    left, right = arguments
    if left.type != right.type:
        return None
    if left.type.name in _CHEAP_EQUALITY:
        return CallEstimate(ONE)
    if left.type.name == "kubernetes.NamedFormat":
        return CallEstimate(Range(1, _FORMAT).scaled(TRAVERSAL))
    if left.type.name == "kubernetes.URL":
        size = right.known_size or ONE
        return CallEstimate(Range(1, size.high).scaled(TRAVERSAL))
    return None


_BY_FUNCTION: Mapping[str, Estimator] = {
    "check": _constant(CHECK),
    **dict.fromkeys(
        [
            "serviceAccount",
            "path",
            "group",
            "resource",
            "subresource",
            "namespace",
            "name",
            "allowed",
            "reason",
            "error",
            "errored",
            "masked",
            "prefixLength",
            "family",
            "isUnspecified",
            "isLoopback",
            "isLinkLocalMulticast",
            "isLinkLocalUnicast",
            "isGlobalUnicast",
            "format.named",
            "sign",
            "asInteger",
            "isInteger",
            "asApproximateFloat",
            "isGreaterThan",
            "isLessThan",
            "compareTo",
            "add",
            "sub",
            "major",
            "minor",
            "patch",
            "getScheme",
            "getHostname",
            "getHost",
            "getPort",
            "getEscapedPath",
            "getQuery",
        ],
        _constant(1),
    ),
    **dict.fromkeys(("fieldSelector", "labelSelector"), _selector),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"), _traversed),
    **dict.fromkeys(("url", "jsonpatch.escapeKey"), _text(TRAVERSAL, sized=True)),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _target_text),
    "replace": _replace,
    "split": _split,
    "join": _join,
    **dict.fromkeys(("find", "findAll"), _find),
    **dict.fromkeys(
        ("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _text(TRAVERSAL)
    ),
    "ip": _ip,
    "ip.isCanonical": _text(2 * TRAVERSAL),
    "containsIP": _contains(whole_network=False),
    "containsCIDR": _contains(whole_network=True),
    "validate": _validate,
    "_==_": _equals,
}


def _list_result(size: Range) -> CallEstimate:
    return CallEstimate(fixed(LIST) + size + ONE, size)


def _slice(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.size
    start, end = (_number(argument) for argument in arguments)
    if start is not None and end is not None:
        size = fixed(max(end - start, 0))
    return _list_result(size)


def _number(operand: Operand) -> int | None:
    value = operand.node.value if isinstance(operand.node, Literal) else None
    return value if isinstance(value, int) else None


def _whole_list(target: Operand | None, _: list[Operand]) -> CallEstimate | None:
    return None if target is None else _list_result(target.size)


def _range(_: Operand | None, arguments: list[Operand]) -> CallEstimate:
    end = _number(arguments[0])
    return _list_result(Range(0, LARGEST) if end is None else fixed(max(end, 0)))


def _squared(target: Operand | None, _: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    size = target.size
    return CallEstimate(fixed(LIST) + (size * size).scaled(2) + ONE, size)


def _sets(factor: int) -> Estimator:
    def estimate(_: Operand | None, arguments: list[Operand]) -> CallEstimate:
        return CallEstimate((arguments[0].size * arguments[1].size).scaled(factor) + ONE)

    return estimate


_BY_OVERLOAD: Mapping[str, Estimator] = {
    "list_slice": _slice,
    **dict.fromkeys(("list_flatten", "list_flatten_int", "list_reverse"), _whole_list),
    "lists_range": _range,
    "list_distinct": _squared,
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def estimator(function: str, overload: str) -> Estimator | None:
    """Returns the estimator of a call of these libraries; None if the standard rules hold."""
    if overload.endswith(("_sort", "_sortByAssociatedKeys")):
        return _squared
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)
