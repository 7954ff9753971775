"""A checked tree as closures: one Python call per node, errors as exceptions, costs counted on the way.

The order of evaluation and what is counted where follow cel-go's planner, whose quirks the costs show: a
chain of selections is one attribute; the branches of a condition that are attributes cost one less;
conversions of constants and lists of constants are computed beforehand and cost nothing.

Source: github.com/google/cel-go/interpreter (planner.go, attributes.go, interpretable.go, runtimecost.go,
decorators.go), as of Kubernetes 1.36.
"""

from typing import Any

from kubeskew.apimachinery.cel.checker.checker import Checked
from kubeskew.apimachinery.cel.costs.actual_costs import call_cost
from kubeskew.apimachinery.cel.errors import CompileError, EvaluationError
from kubeskew.apimachinery.cel.interpreter import comprehensions
from kubeskew.apimachinery.cel.interpreter.constructors import list_of, map_of, object_of
from kubeskew.apimachinery.cel.interpreter.steps import (
    Step,
    alternative,
    application,
    attribute,
    conditional,
    indexing,
    local_variable,
    logic,
    membership,
    not_strictly_false,
    optional_indexing,
    optional_selection,
    presence,
    selection,
    variable,
)
from kubeskew.apimachinery.cel.library.regular import regular_expression
from kubeskew.apimachinery.cel.overloads import Functions, dispatcher
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
from kubeskew.apimachinery.cel.values import TypeValue

_INDEXES = frozenset({"_[_]", "_?._", "_[?_]"})
_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_FOLDED = (bool, int, float, str, bytes)


class Interpreter:
    """Builds the closures of one expression; `places` is how many local variables it needs."""

    def __init__(self, checked: Checked, functions: Functions) -> None:
        self._checked = checked
        self._functions = functions
        self._scopes: list[dict[str, tuple[int, Step | None]]] = []
        self.places = 0

    def build(self, node: Node) -> Step:
        """Returns the closure of `node`, with its full cost."""
        constant = self.constant(node)
        if constant is not None:
            (value,) = constant
            return lambda _: value
        if self._is_attribute(node):
            return self._attribute(node)
        match node:
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
        raise TypeError(node)

    def place(self, name: str, start: Step | None = None) -> int:
        """Returns a place for a local variable of the innermost scope; `start` computes it when it is
        first read."""
        place = self.places
        self.places += 1
        self._scopes[-1][name] = (place, start)
        return place

    def enter(self) -> None:
        self._scopes.append({})

    def leave(self) -> None:
        self._scopes.pop()

    # Constants

    def constant(self, node: Node) -> tuple[Any] | None:
        """Returns the value of a constant node, else None; raises CompileError if its conversion fails."""
        if isinstance(node, Literal):
            return (node.value,)
        if node in self._checked.values:
            return (TypeValue(self._checked.values[node].name),)
        if isinstance(node, ListLiteral) and not node.optional:
            items = [self.constant(item) for item in node.items]
            known = [item[0] for item in items if item is not None]
            return (known,) if len(known) == len(items) else None
        if isinstance(node, MapLiteral):
            return self._constant_map(node)
        if isinstance(node, Call) and node.function in _CONVERSIONS and node.target is None:
            return self._constant_conversion(node)
        return None

    def _constant_map(self, node: MapLiteral) -> tuple[Any] | None:
        result = {}
        for entry in node.entries:
            key, value = self.constant(entry.key), self.constant(entry.value)
            if key is None or value is None or entry.optional or isinstance(key[0], list | dict):
                return None
            if key[0] in result:
                raise CompileError(f"program instantiation failed: Failed with repeated key: {key[0]}")
            result[key[0]] = value[0]
        return (result,)

    def _constant_conversion(self, node: Call) -> tuple[Any] | None:
        if len(node.arguments) != 1 or (argument := self.constant(node.arguments[0])) is None:
            return None
        convert = dispatcher(node.function, self._checked.overloads[node])
        try:
            return (convert(argument[0]),)
        except EvaluationError as error:
            raise CompileError(f"program instantiation failed: {error}") from None

    # Attributes: names, selections, indexing and conditions

    @staticmethod
    def _is_attribute(node: Node) -> bool:
        if isinstance(node, Ident):
            return True
        if isinstance(node, Select):
            return True
        return isinstance(node, Call) and (node.function in _INDEXES or node.function == "_?_:_")

    def _attribute(self, node: Node) -> Step:
        resolve = self.bare(node)
        if isinstance(node, Select) and node.test:
            return resolve
        root: Node = node
        while isinstance(root, Select) or (isinstance(root, Call) and root.function in _INDEXES):
            if root in self._checked.names:
                break
            root = root.operand if isinstance(root, Select) else root.arguments[0]
        if isinstance(root, Call) and root.function == "_?_:_":
            return resolve

        return attribute(resolve)

    def bare(self, node: Node) -> Step:
        """Returns the closure of an attribute without the cost of reading it; other nodes keep their full
        cost."""
        if not self._is_attribute(node) or self.constant(node) is not None:
            return self.build(node)
        if node in self._checked.names:
            return self._name(self._checked.names[node])
        if isinstance(node, Select):
            operand = self.bare(node.operand)
            return presence(operand, node.field) if node.test else selection(operand, node.field)
        if not isinstance(node, Call):
            raise TypeError(node)
        if node.function == "_?_:_":
            return self._conditional(node)
        operand, key = self.bare(node.arguments[0]), node.arguments[1]
        constant = self.constant(key)
        optional = node.function != "_[_]"
        if constant is not None and not isinstance(constant[0], list | dict):
            return optional_selection(operand, constant[0]) if optional else selection(operand, constant[0])
        found = self.bare(key)
        return optional_indexing(operand, found) if optional else indexing(operand, found)

    def _name(self, name: str) -> Step:
        for scope in reversed(self._scopes):
            if name in scope:
                place, start = scope[name]
                return local_variable(place) if start is None else comprehensions.delayed(place, start)
        return variable(name)

    def _conditional(self, node: Call) -> Step:
        test, then, otherwise = node.arguments
        return conditional(self.build(test), self.bare(then), self.bare(otherwise))

    # Calls

    def _call(self, node: Call) -> Step:
        if node.function in ("_&&_", "_||_"):
            left, right = (self.build(argument) for argument in node.arguments)
            return logic(left, right, node.function == "_||_")
        arguments = node.arguments
        if node.target is not None and node not in self._checked.functions:
            arguments = (node.target, *arguments)
        name = self._checked.functions.get(node, node.function.removeprefix("."))
        if name == "@not_strictly_false":
            return not_strictly_false(self.build(arguments[0]))
        if name in ("or", "orValue") and node.target is not None:
            return alternative(self.build(arguments[0]), self.build(arguments[1]), name == "or")
        overloads = self._checked.overloads[node]
        identity = overloads[0].identity if len(overloads) == 1 else ""
        if identity == "in_list" and (members := self._members(arguments[1])) is not None:
            return membership(self.build(arguments[0]), members) if members else lambda _: False
        self._check_pattern(name, arguments)
        steps = [self.build(argument) for argument in arguments]
        method = node.target is not None and node not in self._checked.functions
        candidates = overloads
        if not identity:  # at run time any overload of the name may apply
            candidates = tuple(overload for overload in self._functions.of(name) if overload.method == method)
        return application(dispatcher(name, candidates), call_cost(name, identity), steps)

    def _members(self, node: Node) -> list[Any] | None:
        """Returns the items of a list of constants, which `in` looks up in a set."""
        constant = self.constant(node)
        if constant is None or not all(isinstance(item, _FOLDED) for item in constant[0]):
            return None
        items: list[Any] = constant[0]
        return items

    def _check_pattern(self, name: str, arguments: tuple[Node, ...]) -> None:
        if name in ("find", "findAll", "matches") and len(arguments) > 1:
            pattern = arguments[1]
            if isinstance(pattern, Literal) and isinstance(pattern.value, str):
                try:
                    regular_expression(pattern.value)
                except ValueError as error:
                    raise CompileError(f"program instantiation failed: {error}") from None

    # Constructors

    def _list(self, node: ListLiteral) -> Step:
        return list_of([self.build(item) for item in node.items], node.optional)

    def _map(self, node: MapLiteral) -> Step:
        return map_of(
            [(self.build(entry.key), self.build(entry.value), entry.optional) for entry in node.entries]
        )

    def _object(self, node: ObjectLiteral) -> Step:
        rows = [(entry.key, self.build(entry.value), entry.optional) for entry in node.entries]
        return object_of(node.name.removeprefix("."), rows)

    def _comprehension(self, node: Comprehension) -> Step:
        return comprehensions.build(self, node)
