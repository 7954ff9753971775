"""The interpreter of CEL: a checked tree becomes closures, which count costs on the way.

Each node is one Python call. Errors are exceptions. The steps (closures) of an expression share a frame while
it is evaluated. Lists, maps and objects that an expression writes out have steps of their own, and so have
loops (`all`, `exists`, lists collected, any other fold) and `cel.bind`.

The order of evaluation and the places of costs follow cel-go's planner, whose quirks the costs show: a chain
of selections is one attribute; the branches of a condition that are attributes cost one less; conversions of
constants and lists of constants are computed beforehand and cost nothing.

Source: github.com/google/cel-go/interpreter (planner.go, attributes.go, interpretable.go, runtimecost.go,
decorators.go), as of Kubernetes 1.36.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from kubeskew.apimachinery.cel.checker import Checked
from kubeskew.apimachinery.cel.costs import LIST, MAP, OBJECT, CallCost, call_cost
from kubeskew.apimachinery.cel.errors import (
    COST_EXCEEDED,
    NO_SUCH_OVERLOAD,
    CompileError,
    CostExceededError,
    EvaluationError,
    PanicError,
)
from kubeskew.apimachinery.cel.library.kubernetes import URL, Format
from kubeskew.apimachinery.cel.library.network import Address, Network
from kubeskew.apimachinery.cel.library.patterns import regular_expression
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
from kubeskew.apimachinery.cel.values import (
    NONE,
    Lazy,
    ObjectValue,
    Optional,
    Semver,
    TypeValue,
    find,
    go_type,
    is_key,
    lookup,
    same,
    shown_key,
    type_name,
)
from kubeskew.apimachinery.quantity import Quantity

Rows = list[tuple[Any, Any, bool]]
_UNREAD = object()
_INDEXES = frozenset({"_[_]", "_?._", "_[?_]"})
_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
# Values of Kubernetes' libraries, by class: what they are in Go.
_NATIVE: Mapping[type, tuple[str, Callable[[Any], str]]] = {
    Quantity: ("*resource.Quantity", str),
    Semver: ("semver.Version", str),
    URL: ("*url.URL", lambda url: str(url.text)),
    Address: ("netip.Addr", lambda address: str(address.value)),
    Network: ("netip.Prefix", lambda network: str(network.interface)),
}
_VARIED = frozenset({"string_format"})
_FOLDED = (bool, int, float, str)


class Frame:
    """One evaluation: bindings, values of local variables, and the cost spent so far."""

    __slots__ = ("bindings", "cost", "limit", "places")

    def __init__(self, bindings: Mapping[str, Any], places: int, limit: int) -> None:
        self.bindings = bindings
        self.places: list[Any] = [None] * places
        self.cost = 0
        self.limit = limit

    def spend(self, cost: int) -> None:
        self.cost += cost
        if self.cost > self.limit:
            raise CostExceededError(COST_EXCEEDED)

    def spend_ones(self, count: int) -> None:
        """Spends 1 `count` times, and stops at the first that exceeds the limit, as upstream's counter
        does."""
        self.cost += count
        if self.cost > self.limit:
            self.cost = self.limit + 1
            raise CostExceededError(COST_EXCEEDED)


Step = Callable[[Frame], Any]


def variable(name: str) -> Step:
    """Reads a binding; a Lazy one is computed and its cost counted."""

    def read(frame: Frame) -> Any:
        try:
            value = frame.bindings[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return read


def attribute(resolve: Step) -> Step:
    """Reads a variable or a chain of selections, which costs 1 besides its selections."""

    def read(frame: Frame) -> Any:
        try:
            value = resolve(frame)
        except EvaluationError:
            frame.spend(1)
            raise
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostExceededError(COST_EXCEEDED)
        return value

    return read


def _reread(value: Any) -> Any:
    """Returns what cel-go makes of an optional value that it reads: Kubernetes' own become errors in it."""
    if value.__class__ is not Optional or not value.present:
        return value
    inner = value.value
    while inner.__class__ is Optional:  # an optional value in an optional value is that value
        inner = inner.value if inner.present else None
    if native := _native(inner):
        return Optional(EvaluationError(f"unsupported conversion to ref.Val: {native}"), present=True)
    return value if inner is value.value else Optional(inner, present=True)


def _native(value: Any) -> str:
    """Type and text of a value in Go; empty for values that have a type in cel-go."""
    native = _NATIVE.get(value.__class__)
    return "" if native is None else f"({native[0]}){native[1](value)}"


def conditional(test: Step, then: Step, otherwise: Step) -> Step:
    def choose(frame: Frame) -> Any:
        value = test(frame)
        if value is True:
            return _reread(then(frame))
        if value is False:
            return _reread(otherwise(frame))
        raise EvaluationError(NO_SUCH_OVERLOAD)

    return choose


def local_variable(place: int) -> Step:
    def local(frame: Frame) -> Any:
        value = frame.places[place]
        if value.__class__ is EvaluationError:
            raise value
        return _reread(value) if value.__class__ is Optional else value

    return local


def selection(operand: Step, key: Any) -> Step:
    plain = isinstance(key, str)

    def selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise CostExceededError(COST_EXCEEDED)
        if plain and container.__class__ is dict and key in container:
            value = container[key]
        else:
            value = lookup(container, key)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return selected


def _continued(frame: Frame, container: Optional, key: Any) -> Optional:
    """Selects further in an optional chain: a missing field or key makes it `none`, at no cost."""
    if not container.present:
        return NONE
    found = find(container.value, key)
    if found.present:
        frame.spend(1)
        if found.value.__class__ is Lazy:
            return Optional(found.value.get(frame.spend), True)
    return found


def optional_selection(operand: Step, key: Any) -> Step:
    def optionally_selected(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key)

    return optionally_selected


def indexing(operand: Step, key: Step) -> Step:
    def indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is Optional:
            return _continued(frame, container, key(frame)) if container.present else NONE
        try:
            found = key(frame)
        except EvaluationError:
            frame.spend(1)
            raise
        frame.spend(1)
        value = lookup(container, found)
        return value.get(frame.spend) if value.__class__ is Lazy else value

    return indexed


def optional_indexing(operand: Step, key: Step) -> Step:
    def optionally_indexed(frame: Frame) -> Any:
        container = operand(frame)
        if container.__class__ is not Optional:
            container = Optional(container, True)
        return _continued(frame, container, key(frame)) if container.present else NONE

    return optionally_indexed


def presence(operand: Step, field: str) -> Step:
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


def logic(left: Step, right: Step, deciding: bool) -> Step:
    """`||` (deciding is True) or `&&`: an operand that decides makes the other's failure irrelevant."""

    def decide(frame: Frame) -> bool:
        first = _outcome(left, frame)
        if first is deciding:
            return bool(deciding)
        second = _outcome(right, frame)
        if second is deciding:
            return bool(deciding)
        if first.__class__ is EvaluationError:
            raise first
        if second.__class__ is EvaluationError:
            raise second
        return not deciding

    return decide


def not_strictly_false(step: Step) -> Step:
    def judge(frame: Frame) -> bool:
        value = _outcome(step, frame)
        frame.spend(1)
        return value is not False

    return judge


def alternative(left: Step, right: Step, whole: bool) -> Step:
    """`optional.or(other)` (whole) or `optional.orValue(other)`; `other` is evaluated only if needed."""

    def choose(frame: Frame) -> Any:
        value = left(frame)
        if value.__class__ is not Optional:
            return value
        if value.present:
            return value if whole else value.get()
        return right(frame)

    return choose


def membership(step: Step, members: list[Any]) -> Step:
    known = {member for member in members if not isinstance(member, bool)}

    def member(frame: Frame) -> bool:
        value = step(frame)
        if isinstance(value, str | bytes) or value.__class__ is int:
            return value in known
        return any(same(value, member) for member in members)

    return member


def application(
    function: Callable[..., Any], cost: CallCost | int, steps: list[Step], *, varied: bool
) -> Step:
    """`varied` calls take any number of arguments: they stop at the first that fails."""
    if len(steps) == 1:
        return _unary(function, cost, steps[0])
    if len(steps) == 2 and not varied:
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
    frame.cost += cost if isinstance(cost, int) else cost(arguments, value)
    if frame.cost > frame.limit:
        raise CostExceededError(COST_EXCEEDED)
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
    """Evaluates the right operand and counts the call, although the left one failed."""
    try:
        second = right(frame)
    except EvaluationError as other:
        second = other
    frame.spend(cost if isinstance(cost, int) else cost((error, second), error))


def _many(function: Callable[..., Any], cost: CallCost | int, steps: list[Step]) -> Step:
    def many(frame: Frame) -> Any:
        arguments: list[Any] = []
        for step in steps:
            try:
                arguments.append(step(frame))
            except EvaluationError as error:
                if len(arguments) == len(steps) - 1:  # without all arguments the call is not counted
                    frame.spend(cost if isinstance(cost, int) else cost((*arguments, error), error))
                raise
        return _evaluated(frame, function, cost, tuple(arguments))

    return many


def _without_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Calls a function whose pattern was compiled before: it does not name the types that do not fit."""

    def call(*arguments: Any) -> Any:
        try:
            return function(*arguments)
        except EvaluationError as error:
            if str(error).startswith(NO_SUCH_OVERLOAD):
                raise EvaluationError(NO_SUCH_OVERLOAD) from None
            raise

    return call


def list_of(steps: list[Step], optional: frozenset[int]) -> Step:
    """Items at `optional` places are left out if they are none."""

    def build(frame: Frame) -> list[Any]:
        try:
            items = [step(frame) for step in steps]
        except EvaluationError:
            frame.spend(LIST)
            raise
        frame.spend(LIST)
        return _present(items, optional) if optional else items

    return build


def _present(items: list[Any], optional: frozenset[int]) -> list[Any]:
    found: list[Any] = []
    for place, item in enumerate(items):
        if place not in optional:
            found.append(item)
        elif not isinstance(item, Optional):
            what = "cannot initialize optional list element from non-optional value"
            raise EvaluationError(f"{what} {shown_key(item)}")
        elif item.present:
            found.append(item.value)
    return found


def map_of(rows: Rows) -> Step:
    """A row is the step of the key, that of the value, and whether the value is optional."""

    def build(frame: Frame) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        try:
            for key, value in _evaluated_entries(frame, [(step(frame), *row) for step, *row in rows]):
                _check_map_key(key)
                result[key] = value
        except EvaluationError:
            frame.spend(MAP)
            raise
        frame.spend(MAP)
        return result

    return build


def _check_map_key(key: Any) -> None:
    """Go's maps, which cel-go makes of these, panic at keys without a hash."""
    if isinstance(key, bytes | Semver | Format):
        raise PanicError(f"runtime error: hash of unhashable type {go_type(key)}")
    if isinstance(key, list | Mapping):
        raise EvaluationError(f"unsupported key type: {type_name(key)}")


def object_of(name: str, rows: Rows) -> Step:
    """A row is the field, the step of its value, and whether that is optional."""

    def build(frame: Frame) -> ObjectValue:
        try:
            fields = dict(_evaluated_entries(frame, rows))
        except EvaluationError:
            frame.spend(OBJECT)
            raise
        frame.spend(OBJECT)
        return ObjectValue(name, fields)

    return build


def _evaluated_entries(frame: Frame, rows: Rows) -> Iterator[tuple[Any, Any]]:
    """Optional values that are none are left out; one that is no optional raises EvaluationError."""
    for key, step, optional in rows:
        value = step(frame)
        if not optional:
            yield key, value
        elif not isinstance(value, Optional):
            what = f"cannot initialize optional entry '{shown_key(key)}' from non-optional value"
            raise EvaluationError(f"{what} {shown_key(value)}")
        elif value.present:
            yield key, value.value


class Builder(Protocol):
    """The parts of an interpreter that loops need: closures of nodes, and places for variables."""

    def build(self, node: Node) -> Step: ...

    def constant(self, node: Node) -> tuple[Any] | None: ...

    def place(self, name: str, start: Step | None = None) -> int: ...

    def enter(self) -> None:
        """Begins a scope of variables."""
        ...

    def leave(self) -> None:
        """Ends the innermost scope."""
        ...


def build(builder: Builder, node: Comprehension) -> Step:
    if node.macro == "bind":
        return _bind(builder, node)
    container = builder.build(node.range)
    builder.enter()
    if node.macro in ("all", "exists"):
        builder.place(node.accumulator)
        builder.enter()
        setter = _setter(builder, node.variables)
        test = builder.build(_call(node.step).arguments[1])
        step = _quantified(container, setter, test, node.macro == "exists")
    elif node.macro == "collect":
        builder.place(node.accumulator)
        builder.enter()
        step = _collected(builder, node, container)
    else:
        return _fold(builder, node, container)
    builder.leave()
    builder.leave()
    return step


Setter = Callable[[list[Any], Any], Iterable[Any]]


def _setter(builder: Builder, names: tuple[str, ...]) -> Setter:
    """Puts each element of a container in turn into the variables' places."""
    first = builder.place(names[0])
    if len(names) == 1:
        return lambda places, container: _elements(places, first, container)
    second = builder.place(names[1])
    return lambda places, container: _pairs(places, first, second, container)


def _elements(places: list[Any], place: int, container: Any) -> Iterable[Any]:
    if not isinstance(container, list | tuple | Mapping):
        raise _not_iterable(container)
    for item in container:
        places[place] = item
        yield item


def _pairs(places: list[Any], first: int, second: int, container: Any) -> Iterable[Any]:
    if isinstance(container, Mapping):
        pairs: Iterable[tuple[Any, Any]] = container.items()
    elif isinstance(container, list | tuple):
        pairs = enumerate(container)
    else:
        raise EvaluationError(f"unsupported comprehension range type: {go_type(container)}")
    for key, item in pairs:
        places[first] = key
        places[second] = item
        yield key


def _not_iterable(value: Any) -> EvaluationError:
    return EvaluationError(f"got '{go_type(value)}', expected iterable type")


def _quantified(container: Step, setter: Setter, test: Step, exists: bool) -> Step:
    """`exists` or `all`: a failure counts only if no other element decides."""
    condition = 3 if exists else 2

    def quantified(frame: Frame) -> bool:
        failure: EvaluationError | None = None
        decided = False
        for _ in setter(frame.places, container(frame)):
            frame.spend_ones(condition)
            if decided:
                break
            frame.spend(1)
            try:
                value = test(frame)
            except EvaluationError as error:
                failure = failure or error
                continue
            if value is exists:
                decided = True
            elif value is not (not exists):
                failure = failure or EvaluationError(NO_SUCH_OVERLOAD)
        frame.spend(1)
        if failure is not None and not decided:
            raise failure
        return exists if decided else not exists

    return quantified


def _collected(builder: Builder, node: Comprehension, container: Step) -> Step:
    """Collects an item for each element that passes the test; without a test, for all."""
    setter = _setter(builder, node.variables)
    test_node, item_node = _parts(_call(node.step))
    test = None if test_node is None else builder.build(test_node)
    item = builder.build(item_node)
    cost = 0 if builder.constant(item_node) is not None else LIST

    def collected(frame: Frame) -> list[Any]:
        result: list[Any] = []
        failure: EvaluationError | None = None
        for _ in setter(frame.places, container(frame)):
            try:
                if test is not None:
                    verdict = test(frame)
                    if verdict is False:
                        continue
                    if verdict is not True:
                        raise EvaluationError(NO_SUCH_OVERLOAD)
            except EvaluationError as error:
                failure = error
                continue
            frame.spend(1)
            try:
                result.append(item(frame))
            except EvaluationError as error:
                failure = failure or error
            frame.spend(cost)
            frame.spend(1)
        frame.spend(1)
        if failure is not None:
            raise failure
        return result

    return collected


def _call(node: Node) -> Call:
    if not isinstance(node, Call):
        raise TypeError(node)
    return node


def _parts(step: Call) -> tuple[Node | None, Node]:
    """First the test, None without one, then the node that is added to the list."""
    test = step.arguments[0] if step.function == "_?_:_" else None
    added = step if test is None else _call(step.arguments[1])
    items = added.arguments[1]
    if not isinstance(items, ListLiteral):
        raise TypeError(items)
    return test, items.items[0]


def _fold(builder: Builder, node: Comprehension, container: Step) -> Step:
    start = builder.build(node.start)
    place = builder.place(node.accumulator)
    builder.enter()
    setter = _setter(builder, node.variables)
    condition, step = builder.build(node.condition), builder.build(node.step)
    builder.leave()
    result = builder.build(node.result)
    builder.leave()

    def fold(frame: Frame) -> Any:
        found = container(frame)
        places = frame.places
        places[place] = start(frame)
        for _ in setter(places, found):
            if condition(frame) is False:
                break
            try:
                places[place] = step(frame)
            except EvaluationError as error:
                places[place] = error
        return result(frame)

    return fold


def _bind(builder: Builder, node: Comprehension) -> Step:
    start = builder.build(node.start)
    builder.enter()
    place = builder.place(node.accumulator, start)
    result = builder.build(node.result)
    builder.leave()

    def bind(frame: Frame) -> Any:
        frame.places[place] = _UNREAD
        return result(frame)

    return bind


def delayed(place: int, start: Step) -> Step:
    """Reads a bound variable, computing it the first time."""

    def read(frame: Frame) -> Any:
        value = frame.places[place]
        if value is _UNREAD:
            try:
                value = start(frame)
            except EvaluationError as error:
                value = error
            frame.places[place] = value
        if value.__class__ is EvaluationError:
            raise value
        return _reread(value) if value.__class__ is Optional else value

    return read


class Interpreter:
    """Builds the closures of one expression; `places` counts the local variables that it needs."""

    def __init__(self, checked: Checked, functions: Functions) -> None:
        self._checked = checked
        self._functions = functions
        self._scopes: list[dict[str, tuple[int, Step | None]]] = []
        self.places = 0

    def build(self, node: Node) -> Step:
        """The closure counts the node's full cost."""
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
        """Reserves a place in the innermost scope; `start` computes the variable when it is first read."""
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
        """None for a node that is not constant; raises CompileError if a constant's conversion fails."""
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
        if isinstance(node, Call) and node.function == "@in":
            return (False,) if self._is_in_nothing(node) else None
        if isinstance(node, Call) and node.function in _CONVERSIONS and node.target is None:
            return self._constant_conversion(node)
        return None

    def _is_in_nothing(self, node: Call) -> bool:
        """True of `x in []`, which needs no evaluation."""
        overloads = self._checked.overloads[node]
        return (
            len(overloads) == 1
            and overloads[0].identity == "in_list"
            and self.constant(node.arguments[1]) == ([],)
        )

    def _constant_map(self, node: MapLiteral) -> tuple[Any] | None:
        result = {}
        for entry in node.entries:
            key, value = self.constant(entry.key), self.constant(entry.value)
            if key is None or value is None or entry.optional or isinstance(key[0], list | dict | bytes):
                return None
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
        """Leaves out the cost of reading an attribute; other nodes keep their full cost."""
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
        if constant is not None:
            if not is_key(constant[0]):
                failure = f"invalid qualifier type: {go_type(constant[0])}"
                raise CompileError(f"program instantiation failed: {failure}")
            return optional_selection(operand, constant[0]) if optional else selection(operand, constant[0])
        found = self.bare(key)
        return optional_indexing(operand, found) if optional else indexing(operand, found)

    def _name(self, name: str) -> Step:
        for scope in reversed(self._scopes):
            if name in scope:
                place, start = scope[name]
                return local_variable(place) if start is None else delayed(place, start)
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
        steps = [self.build(argument) for argument in arguments]
        constant_pattern = self._has_pattern(name, arguments)
        method = node.target is not None and node not in self._checked.functions
        candidates, varied = overloads, identity in _VARIED
        if not identity:  # at run time any overload of the name may apply
            candidates = tuple(overload for overload in self._functions.of(name) if overload.method == method)
            varied = len(self._functions.of(name)) > 1 and not candidates[0].loose
        varied = varied or constant_pattern
        function = dispatcher(name, candidates)
        if constant_pattern:
            function = _without_types(function)
        return application(function, call_cost(name, identity), steps, varied=varied)

    def _members(self, node: Node) -> list[Any] | None:
        """Only lists of constants, which `in` looks up in a set; None for others."""
        constant = self.constant(node)
        if constant is None or not all(isinstance(item, _FOLDED) for item in constant[0]):
            return None
        items: list[Any] = constant[0]
        return items

    def _has_pattern(self, name: str, arguments: tuple[Node, ...]) -> bool:
        """True of calls with a constant pattern, which is compiled at once; raises CompileError."""
        if name not in ("find", "findAll", "matches") or len(arguments) < 2:
            return False
        pattern = self.constant(arguments[1])
        if pattern is None or not isinstance(pattern[0], str):
            return False
        try:
            regular_expression(pattern[0])
        except ValueError as error:
            raise CompileError(f"program instantiation failed: {error}") from None
        return True

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
        return build(self, node)
