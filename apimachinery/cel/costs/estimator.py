"""The cost of an expression before it is evaluated: its range over all inputs that the declarations allow.

Source: github.com/google/cel-go/checker/cost.go, as of Kubernetes 1.36; the sizes of inputs come from
declarations as in k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel and
k8s.io/dynamic-resource-allocation/cel.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.checker.checker import Checked
from kubeskew.apimachinery.cel.costs.actual_costs import LIST, MAP, OBJECT
from kubeskew.apimachinery.cel.costs.estimated_calls import Operand, estimator
from kubeskew.apimachinery.cel.costs.estimates import (
    EMPTY,
    ONE,
    UNKNOWN,
    ZERO,
    CallEstimate,
    Entry,
    Range,
    fixed,
)
from kubeskew.apimachinery.cel.costs.standard_estimates import standard_estimate
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
    """Estimates one expression."""

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
