"""The cost of an expression before it is evaluated: its range over all inputs that the declarations allow.

Calls have upper bounds by function and overload: those of the CEL standard library, of cel-go's extensions
and of Kubernetes' libraries.

Sources: github.com/google/cel-go/checker/cost.go, ext (lists.go, sets.go) and
k8s.io/apiserver/pkg/cel/library/cost.go, as of Kubernetes 1.36; the sizes of inputs come from declarations as
in k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel and k8s.io/dynamic-resource-allocation/cel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import ceil
from typing import Protocol

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.checker import Checked
from kubeskew.apimachinery.cel.costs import (
    CHECK,
    EMPTY,
    LARGEST,
    LIST,
    MAP,
    OBJECT,
    ONE,
    REGEX,
    TRAVERSAL,
    UNKNOWN,
    ZERO,
    CallEstimate,
    Entry,
    Range,
    fixed,
    item_cost,
)
from kubeskew.apimachinery.cel.parser import nodes
from kubeskew.apimachinery.cel.parser.nodes import (
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    ObjectLiteral,
    Select,
)
from kubeskew.apimachinery.cel.types import Type

_FORMAT = 64  # characters of a format's name
_FORMAT_REGEX = 128
_Size = tuple[Range, Range | None]  # cost and size of the result


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
CallEstimator = Callable[[Operand | None, list[Operand]], CallEstimate | None]


def _constant(cost: int) -> CallEstimator:
    return lambda _target, _arguments: CallEstimate(fixed(cost))


def _text(factor: float, *, sized: bool = False) -> CallEstimator:
    """Traverses the first argument; `sized` results are as large as it."""

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


def _contains_network(*, network: bool, text: bool) -> CallEstimator:
    """Of a text that is parsed first, its traversal; of a network, one more of the address."""

    def estimate(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
        if target is None or not arguments:
            return None
        cost = (_ADDRESS + _ADDRESS).scaled(TRAVERSAL)
        if network:
            cost = cost + _ADDRESS.scaled(TRAVERSAL) + ONE
        if text:
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


_BY_FUNCTION: Mapping[str, CallEstimator] = {
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
    "containsIP": _contains_network(network=False, text=False),
    "containsCIDR": _contains_network(network=True, text=False),
    "validate": _validate,
    "_==_": _equals,
}


def _list_result(size: Range, factor: float = 1.0) -> CallEstimate:
    return CallEstimate(size.scaled(factor) + ONE + fixed(LIST), size)


def _number(operand: Operand, otherwise: int) -> int:
    """The value of a literal, as cel-go's estimators of lists take it."""
    value = operand.node.value if isinstance(operand.node, Literal) else None
    return max(value, 0) if type(value) is int else otherwise


def _slice(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    start, end = _number(arguments[0], 0), _number(arguments[1], target.size.high)
    return _list_result(fixed((end - start) % 2**64))


def _whole_list(target: Operand | None, _: list[Operand]) -> CallEstimate | None:
    return None if target is None else _list_result(target.size)


def _flattened(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
    if target is None:
        return None
    return _list_result(target.size, float(_number(arguments[0], LARGEST) if arguments else 1))


def _range(_: Operand | None, arguments: list[Operand]) -> CallEstimate:
    return _list_result(fixed(_number(arguments[0], LARGEST)))


def _compared_items(kind: str, *, keys: bool) -> CallEstimator:
    """Compares each item of the target, or of its keys, with all others; the result counts as many."""

    def estimate(target: Operand | None, arguments: list[Operand]) -> CallEstimate | None:
        if target is None:
            return None
        size = arguments[0].size if keys else target.size
        return _list_result(size * size, 2.0 + item_cost(kind))

    return estimate


def _sets(factor: int) -> CallEstimator:
    def estimate(_: Operand | None, arguments: list[Operand]) -> CallEstimate:
        return CallEstimate((arguments[0].size * arguments[1].size).scaled(factor) + ONE)

    return estimate


_BY_OVERLOAD: Mapping[str, CallEstimator] = {
    "list_slice": _slice,
    "list_reverse": _whole_list,
    **dict.fromkeys(("list_flatten", "list_flatten_int"), _flattened),
    "lists_range": _range,
    "list_distinct": _compared_items("", keys=False),
    "cidr_contains_ip_string": _contains_network(network=False, text=True),
    "cidr_contains_cidr_string": _contains_network(network=True, text=True),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
}


def estimator(function: str, overload: str) -> CallEstimator | None:
    """None if the standard rules hold for the call."""
    if overload.endswith(("_sort", "_sortByAssociatedKeys")):
        _, kind, way = overload.split("_")
        return _compared_items(kind, keys=way != "sort")
    return _BY_OVERLOAD.get(overload) or _BY_FUNCTION.get(function)


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


def _contains_text(target: Operand | None, operands: list[Operand]) -> _Size:
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
    "contains_string": _contains_text,
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
    """Applies the standard rules; the costs of the arguments are included."""
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


Path = tuple[str, ...]

# The size of what a path from a variable leads to (elements are fields, "@items", "@keys", "@values",
# "@indices"); None if unknown.
Sizes = Callable[[Path], Range | None]
# Overrides of single functions, by overload id.
Overrides = Mapping[str, Callable[[Operand | None, list[Operand]], CallEstimate | None]]

_SELECT = ONE


@dataclass(slots=True)
class _Local:
    path: Path
    size: Range | None
    entry: Entry | None


@dataclass(slots=True)
class _Operand:
    """A node as estimators of functions see it."""

    estimator: "Estimator"
    node: Node | None
    type: Type
    path: Path
    known_size: Range | None

    @property
    def size(self) -> Range:
        if self.known_size is not None:
            return self.known_size
        return (self.estimator.sizes(self.path) if self.path else None) or UNKNOWN

    def element(self) -> "_Operand | None":
        if not self.type.parameters:
            return None
        path = (*self.path, "@items") if self.path else ()
        return _Operand(self.estimator, None, self.type.parameters[0], path, None)


class Estimator:
    def __init__(self, checked: Checked, sizes: Sizes, overrides: Overrides) -> None:
        self._checked = checked
        self.sizes = sizes
        self._overrides = overrides
        self._paths: dict[Node, Path] = {}
        self._locals: dict[str, list[_Local]] = {}
        self._sizes: dict[Node, Range] = {}
        self._entries: dict[Node, Entry] = {}

    def estimate(self) -> Range:
        return self.cost(self._checked.root)

    def cost(self, node: Node) -> Range:
        if node in self._checked.values or node in self._checked.names:
            return self._name(node)
        match node:
            case Literal():
                return ZERO
            case Ident():
                return self._name(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case ObjectLiteral():
                return self._object(node)
            case Comprehension():
                return self._comprehension(node)

    def _name(self, node: Node) -> Range:
        name = self._checked.names.get(node) or _identifier(node)
        local = self._local(name)
        self._paths[node] = local.path if local else (name,)
        return _SELECT

    def _local(self, name: str) -> _Local | None:
        stack = self._locals.get(name)
        return stack[-1] if stack else None

    def _push(self, name: str, path: Path, size: Range | None, entry: Entry | None) -> None:
        self._locals.setdefault(name, []).append(_Local(path, size, entry))

    def _select(self, node: Select) -> Range:
        cost = self.cost(node.operand)
        if node.test:
            return cost
        if self.type(node.operand).kind in ("map", "struct", "param"):
            cost = cost + _SELECT
        self._paths[node] = (*self.path(node.operand), node.field)
        return cost

    def _call(self, node: Call) -> Range:
        function = self._checked.functions.get(node, node.function.removeprefix("."))
        if function == "dyn":
            cost = self.cost(node.arguments[0])
            self._copy(node, node.arguments[0])
            return ONE + cost
        costs = [self.cost(argument) for argument in node.arguments]
        operands: list[Operand] = [self.operand(argument) for argument in node.arguments]
        if node.function == "_?._":
            return self._optional_select(node, costs)
        total, target = ZERO, None
        if node.target is not None and node not in self._checked.functions:
            total = self.cost(node.target)
            target = self.operand(node.target)
        found: Range = EMPTY
        size: Range | None = None
        for overload in self._checked.overloads[node]:
            estimate = self._function(node, function, overload.identity, target, operands, costs)
            found = found.union(estimate.cost)
            if estimate.size is not None:
                size = estimate.size if size is None else size.union(estimate.size)
            if overload.identity in ("index_list", "index_map"):
                entry = self.entry(node.arguments[0])
                size = entry.value if entry else None
                step = "@items" if overload.identity == "index_list" else "@values"
                self._paths[node] = (*self.path(node.arguments[0]), step)
            if size is None:
                size = self.computed(node)
        if size is not None:
            self._sizes[node] = size
        return total + found

    def _optional_select(self, node: Call, costs: list[Range]) -> Range:
        """Estimates `a.?b`, which to cel-go's estimator is a call of the overload select_optional_field."""
        size = self.computed(node)
        if size is not None:
            self._sizes[node] = size
        return ONE + reduce(Range.__add__, costs)

    def _function(
        self,
        node: Call,
        function: str,
        overload: str,
        target: Operand | None,
        operands: list[Operand],
        costs: list[Range],
    ) -> CallEstimate:
        arguments = reduce(Range.__add__, costs, ZERO)
        own = self._overrides.get(overload) or estimator(function, overload)
        found = own(target, operands) if own is not None else None
        if found is not None:
            return CallEstimate(found.cost + arguments, found.size)
        return standard_estimate(self, node, overload, target, operands, costs)

    def _list(self, node: ListLiteral) -> Range:
        total, sizes = fixed(LIST), EMPTY if node.items else Range(0, 0)
        for item in node.items:
            total = total + self.cost(item)
            sizes = sizes.union(self.size(item))
        self._entries[node] = Entry("list", ONE, sizes)
        return total

    def _map(self, node: MapLiteral) -> Range:
        total = fixed(MAP)
        keys = values = EMPTY if node.entries else Range(0, 0)
        for entry in node.entries:
            total = total + self.cost(entry.key) + self.cost(entry.value)
            keys, values = keys.union(self.size(entry.key)), values.union(self.size(entry.value))
        self._entries[node] = Entry("map", keys, values)
        return total

    def _object(self, node: ObjectLiteral) -> Range:
        return reduce(Range.__add__, (self.cost(entry.value) for entry in node.entries), fixed(OBJECT))

    def _comprehension(self, node: Comprehension) -> Range:
        if node.macro == "bind":
            return self._bind(node)
        total = self.cost(node.range) + self.cost(node.start)
        self._push(node.accumulator, self.path(node.start), self.computed(node.start), self.entry(node.start))
        self._push_variables(node)
        loop = self.cost(node.condition)
        step = self.cost(node.step)
        for name in node.variables:
            self._locals[name].pop()
        total = total + self.cost(node.result)
        self._locals[node.accumulator].pop()
        count = self.size(node.range)
        total = total + count * (step + loop)
        if isinstance(node.start, Literal):
            start = self.computed(node.start)
            if start is not None:
                self._sizes[node] = start
        elif isinstance(node.start, ListLiteral | MapLiteral):
            self._sizes[node] = count
            entry = self.entry(node.step)
            if entry is not None:
                self._entries[node] = entry
        return total

    def _push_variables(self, node: Comprehension) -> None:
        entry, path = self.entry(node.range), self.path(node.range)
        kind = entry.kind if entry else self.type(node.range).kind
        key, value = (entry.key, entry.value) if entry else (None, None)
        is_list = kind == "list"
        if len(node.variables) == 2:
            self._push(node.variables[0], (*path, "@indices" if is_list else "@keys"), key, None)
            self._push(node.variables[1], (*path, "@items" if is_list else "@values"), value, None)
        elif is_list:
            self._push(node.variables[0], (*path, "@items"), value, None)
        else:
            self._push(node.variables[0], (*path, "@keys"), key, None)

    def _bind(self, node: Comprehension) -> Range:
        total = self.cost(node.range) + self.cost(node.start)
        self._push(node.accumulator, self.path(node.start), self.computed(node.start), self.entry(node.start))
        total = total + self.cost(node.result)
        self._locals[node.accumulator].pop()
        self._copy(node, node.result)
        return total

    def _copy(self, to: Node, source: Node) -> None:
        size, entry = self.computed(source), self.entry(source)
        if size is not None:
            self._sizes[to] = size
        if entry is not None:
            self._entries[to] = entry

    # What is known of nodes

    def type(self, node: Node) -> Type:
        return self._checked.types[node]

    def path(self, node: Node) -> Path:
        if isinstance(node, Ident) and (local := self._local(node.name)):
            return local.path
        return self._paths.get(node, ())

    def operand(self, node: Node) -> Operand:
        path = self.path(node)
        if path and path[0] == nodes.ACCUMULATOR:
            path = ()
        return _Operand(self, node, self.type(node), path, self.computed(node))

    def size(self, node: Node) -> Range:
        return self.computed(node) or UNKNOWN

    def set_entry(self, node: Node, entry: Entry | None) -> None:
        if entry is not None:
            self._entries[node] = entry

    def entry(self, node: Node | None) -> Entry | None:
        if node is None:
            return None
        found = self._entries.get(node)
        if found is None and isinstance(node, Ident) and (local := self._local(node.name)):
            return local.entry
        return found

    def computed(self, node: Node) -> Range | None:
        if node in self._sizes:
            return self._sizes[node]
        literal = _literal_size(node)
        if literal is not None:
            return literal
        path = self.path(node)
        declared = self.sizes(path) if path else None
        if declared is not None:
            self._sizes[node] = declared
            return declared
        if _is_scalar(self.type(node)):
            return ONE
        if isinstance(node, Ident) and (local := self._local(node.name)):
            return local.size
        return None


def _identifier(node: Node) -> str:
    return node.name if isinstance(node, Ident) else ""


def _literal_size(node: Node) -> Range | None:
    if isinstance(node, Literal):
        return fixed(len(node.value)) if isinstance(node.value, str | bytes) else ONE
    if isinstance(node, ListLiteral):
        return fixed(len(node.items))
    if isinstance(node, MapLiteral):
        return fixed(len(node.entries))
    return None


def _is_scalar(kind: Type) -> bool:
    return kind.kind in types.SCALARS or (types.is_optional(kind) and _is_scalar(kind.parameters[0]))
