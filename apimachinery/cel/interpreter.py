"""A checked tree as closures: one Python call per node, errors as exceptions, costs counted on the way.

The order of evaluation and what is counted where follow cel-go's planner, whose quirks the costs show: a chain of
selections is one attribute; the branches of a condition that are attributes cost one less; conversions of
constants and lists of constants are computed beforehand and cost nothing.

Source: github.com/google/cel-go/interpreter (planner.go, attributes.go, interpretable.go, runtimecost.go,
decorators.go), as of Kubernetes 1.36.
"""

from collections.abc import Callable, Mapping
from typing import Any

from apimachinery.cel import comprehensions
from apimachinery.cel.actual_costs import LIST, MAP, OBJECT, CallCost, call_cost
from apimachinery.cel.checker import Checked
from apimachinery.cel.errors import (
    COST_EXCEEDED,
    NO_SUCH_OVERLOAD,
    CompileError,
    CostExceeded,
    EvaluationError,
)
from apimachinery.cel.nodes import (
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
from apimachinery.cel.overloads import Functions, dispatcher
from apimachinery.cel.regular import regular_expression
from apimachinery.cel.values import (
    NONE,
    Lazy,
    ObjectValue,
    Optional,
    TypeValue,
    equal,
    find,
    lookup,
    type_name,
)


class Frame:
    """One evaluation: bindings, places of local variables, what was spent."""

    __slots__ = ("bindings", "cost", "limit", "places")

    def __init__(self, bindings: Mapping[str, Any], places: int, limit: int) -> None:
        self.bindings = bindings
        self.places: list[Any] = [None] * places
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceeded(COST_EXCEEDED)


Step = Callable[[Frame], Any]

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
        """The closure of `node` with its full cost."""
        constant = self.constant(node)
        if constant is not None:
            (value,) = constant
            return lambda _: value
        if self._is_attribute(node):
            return self._attribute(node)
        return _BUILDERS[type(node)](self, node)

    def place(self, name: str, start: Step | None = None) -> int:
        """A place for a local variable of the innermost scope; `start` computes it when it is first read."""
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
        """The value of a node that is known beforehand; raises CompileError if its conversion fails."""
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
            if key is None or value is None or entry.optional:
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

        def attribute(frame: Frame) -> Any:
            try:
                value = resolve(frame)
            except EvaluationError:
                frame.spend(1)
                raise
            frame.cost += 1
            if frame.cost > frame.limit:
                raise CostExceeded(COST_EXCEEDED)
            return value

        return attribute

    def bare(self, node: Node) -> Step:
        """The closure of an attribute without the cost of reading it; of other nodes the whole."""
        if not self._is_attribute(node) or self.constant(node) is not None:
            return self.build(node)
        if node in self._checked.names:
            return self._name(self._checked.names[node])
        if isinstance(node, Select):
            operand = self.bare(node.operand)
            return _tested(operand, node.field) if node.test else _selected(operand, node.field)
        assert isinstance(node, Call)
        if node.function == "_?_:_":
            return self._conditional(node)
        operand, key = self.bare(node.arguments[0]), node.arguments[1]
        constant = self.constant(key)
        optional = node.function != "_[_]"
        if constant is not None:
            return _optionally_selected(operand, constant[0]) if optional else _selected(operand, constant[0])
        found = self.bare(key)
        return _optionally_indexed(operand, found) if optional else _indexed(operand, found)

    def _name(self, name: str) -> Step:
        for scope in reversed(self._scopes):
            if name in scope:
                place, start = scope[name]
                return _local(place) if start is None else comprehensions.delayed(place, start)

        def variable(frame: Frame) -> Any:
            try:
                value = frame.bindings[name]
            except KeyError:
                raise EvaluationError(f"no such attribute(s): {name}") from None
            return value.get(frame.spend) if value.__class__ is Lazy else value

        return variable

    def _conditional(self, node: Call) -> Step:
        test, then, otherwise = node.arguments
        test_step, then_step, otherwise_step = self.build(test), self.bare(then), self.bare(otherwise)

        def conditional(frame: Frame) -> Any:
            value = test_step(frame)
            if value is True:
                return then_step(frame)
            if value is False:
                return otherwise_step(frame)
            raise EvaluationError(NO_SUCH_OVERLOAD)

        return conditional

    # Calls

    def _call(self, node: Call) -> Step:
        if node.function in ("_&&_", "_||_"):
            left, right = (self.build(argument) for argument in node.arguments)
            return _logic(left, right, node.function == "_||_")
        arguments = node.arguments
        if node.target is not None and node not in self._checked.functions:
            arguments = (node.target, *arguments)
        name = self._checked.functions.get(node, node.function.removeprefix("."))
        if name == "@not_strictly_false":
            return _not_strictly_false(self.build(arguments[0]))
        if name in ("or", "orValue") and node.target is not None:
            return _alternative(self.build(arguments[0]), self.build(arguments[1]), name == "or")
        overloads = self._checked.overloads[node]
        identity = overloads[0].identity if len(overloads) == 1 else ""
        if identity == "in_list" and (members := self._members(arguments[1])) is not None:
            return _member(self.build(arguments[0]), members) if members else lambda _: False
        self._check_pattern(name, arguments)
        steps = [self.build(argument) for argument in arguments]
        method = node.target is not None and node not in self._checked.functions
        candidates = overloads
        if not identity:  # at run time any overload of the name may serve
            candidates = tuple(each for each in self._functions.of(name) if each.method == method)
        return _applied(dispatcher(name, candidates), call_cost(name, identity), steps)

    def _members(self, node: Node) -> list[Any] | None:
        """The items of a list of constants that `in` looks up in a set."""
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
        steps = [self.build(item) for item in node.items]
        optional = node.optional

        def build_list(frame: Frame) -> Any:
            try:
                if not optional:
                    items = [step(frame) for step in steps]
                else:
                    items = _present([(step(frame), place in optional) for place, step in enumerate(steps)])
            finally:
                frame.cost += LIST
            frame.spend(0)
            return items

        return build_list

    def _map(self, node: MapLiteral) -> Step:
        rows = [(self.build(entry.key), self.build(entry.value), entry.optional) for entry in node.entries]

        def build_map(frame: Frame) -> Any:
            result: dict[Any, Any] = {}
            try:
                for key_step, value_step, optional in rows:
                    key, value = key_step(frame), value_step(frame)
                    if not isinstance(key, bool | int | str):
                        raise EvaluationError(f"unsupported key type: {type_name(key)}")
                    if optional:
                        if not value.present:
                            continue
                        value = value.value
                    if key in result:
                        raise EvaluationError(f"Failed with repeated key: {key}")
                    result[key] = value
            finally:
                frame.cost += MAP
            frame.spend(0)
            return result

        return build_map

    def _object(self, node: ObjectLiteral) -> Step:
        name = node.name.removeprefix(".")
        rows = [(entry.key, self.build(entry.value), entry.optional) for entry in node.entries]

        def build_object(frame: Frame) -> Any:
            fields: dict[str, Any] = {}
            try:
                for key, step, optional in rows:
                    value = step(frame)
                    if optional:
                        if not value.present:
                            continue
                        value = value.value
                    fields[key] = value
            finally:
                frame.cost += OBJECT
            frame.spend(0)
            return ObjectValue(name, fields)

        return build_object

    def _comprehension(self, node: Comprehension) -> Step:
        return comprehensions.build(self, node)


def _present(items: list[tuple[Any, bool]]) -> list[Any]:
    return [item.value if optional else item for item, optional in items if not optional or item.present]


def _local(place: int) -> Step:
    def local(frame: Frame) -> Any:
        value = frame.places[place]
        if value.__class__ is EvaluationError:
            raise value
        return value

    return local


def _selected(operand: Step, key: Any) -> Step:
    def selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostExceeded(COST_EXCEEDED)
        value = container[key] if container.__class__ is dict and key in container else lookup(container, key)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return selected


def _continued(frame: Frame, container: Optional, key: Any) -> Optional:
    """A further selection of an optional chain: what is missing makes it `none`, at no cost."""
    if not container.present:
        return NONE
    found = find(container.value, key)
    if found.present:
        frame.spend(1)
        if found.value.__class__ is Lazy:
            return Optional(found.value.get(frame.spend), True)
    return found


def _optionally_selected(operand: Step, key: Any) -> Step:
    def optionally_selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key)

    return optionally_selected


def _indexed(operand: Step, key: Step) -> Step:
    def indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key(frame)) if container.present else NONE
        try:
            found = key(frame)
        finally:
            frame.cost += 1
        frame.spend(0)
        value = lookup(container, found)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return indexed


def _optionally_indexed(operand: Step, key: Step) -> Step:
    def optionally_indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key(frame)) if container.present else NONE

    return optionally_indexed


def _tested(operand: Step, field: str) -> Step:
    def tested(frame: Frame) -> bool:
        container = operand(frame)
        frame.spend(1)
        if container.__class__ is Optional:
            return container.present and find(container.value, field).present
        return find(container, field).present

    return tested


def _outcome(step: Step, frame: Frame) -> Any:
    try:
        value = step(frame)
    except EvaluationError as error:
        return error
    return value if value is True or value is False else EvaluationError(NO_SUCH_OVERLOAD)


def _logic(left: Step, right: Step, deciding: bool) -> Step:
    """`||` (deciding is True) or `&&`: a deciding operand outdoes a failing one."""

    def logic(frame: Frame) -> bool:
        first = _outcome(left, frame)
        if first is deciding:
            return deciding
        second = _outcome(right, frame)
        if second is deciding:
            return deciding
        if first.__class__ is EvaluationError:
            raise first
        if second.__class__ is EvaluationError:
            raise second
        return not deciding

    return logic


def _not_strictly_false(step: Step) -> Step:
    def not_strictly_false(frame: Frame) -> bool:
        value = _outcome(step, frame)
        frame.spend(1)
        return value is not False

    return not_strictly_false


def _alternative(left: Step, right: Step, whole: bool) -> Step:
    """`optional.or(other)` (whole) and `optional.orValue(other)`: `other` only if it is needed."""

    def alternative(frame: Frame) -> Any:
        value = left(frame)
        if value.__class__ is not Optional:
            raise EvaluationError(NO_SUCH_OVERLOAD)
        if value.present:
            return value if whole else value.value
        return right(frame)

    return alternative


def _member(step: Step, members: list[Any]) -> Step:
    known = {member for member in members if not isinstance(member, bool)}

    def member(frame: Frame) -> bool:
        value = step(frame)
        if value.__class__ in (str, int, bytes):
            return value in known
        return any(equal(value, each) for each in members)

    return member


def _applied(function: Callable[..., Any], cost: CallCost | int, steps: list[Step]) -> Step:
    if len(steps) == 1:
        return _unary(function, cost, steps[0])
    if len(steps) == 2:
        return _binary(function, cost, *steps)
    return _many(function, cost, steps)


def _unary(function: Callable[..., Any], cost: CallCost | int, step: Step) -> Step:
    def unary(frame: Frame) -> Any:
        try:
            argument = step(frame)
        except EvaluationError as error:
            frame.spend(cost if isinstance(cost, int) else cost((error,), error))
            raise
        return _evaluated(frame, function, cost, (argument,))

    return unary


def _evaluated(
    frame: Frame, function: Callable[..., Any], cost: CallCost | int, arguments: tuple[Any, ...]
) -> Any:
    try:
        value = function(*arguments)
    except EvaluationError as error:
        frame.spend(cost if isinstance(cost, int) else cost(arguments, error))
        raise
    frame.cost += cost if cost.__class__ is int else cost(arguments, value)  # type: ignore[operator]  # an int or a function
    if frame.cost > frame.limit:
        raise CostExceeded(COST_EXCEEDED)
    return value


def _binary(function: Callable[..., Any], cost: CallCost | int, left: Step, right: Step) -> Step:
    def binary(frame: Frame) -> Any:
        try:
            first = left(frame)
        except EvaluationError as error:
            _failed(frame, cost, error, right)
            raise
        try:
            second = right(frame)
        except EvaluationError as error:
            frame.spend(cost if isinstance(cost, int) else cost((first, error), error))
            raise
        return _evaluated(frame, function, cost, (first, second))

    return binary


def _failed(frame: Frame, cost: CallCost | int, error: EvaluationError, right: Step) -> None:
    """The right operand is evaluated, and the call counted, although the left one failed."""
    try:
        second = right(frame)
    except EvaluationError as other:
        second = other
    frame.spend(cost if isinstance(cost, int) else cost((error, second), error))


def _many(function: Callable[..., Any], cost: CallCost | int, steps: list[Step]) -> Step:
    def many(frame: Frame) -> Any:
        return _evaluated(frame, function, cost, tuple([step(frame) for step in steps]))

    return many


_BUILDERS: Mapping[type, Callable[[Interpreter, Any], Step]] = {
    Call: Interpreter._call,
    ListLiteral: Interpreter._list,
    MapLiteral: Interpreter._map,
    ObjectLiteral: Interpreter._object,
    Comprehension: Interpreter._comprehension,
}
