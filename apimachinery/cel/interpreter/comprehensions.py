"""Loops: `all`, `exists`, lists collected, any other fold, and `cel.bind`.

Source: github.com/google/cel-go/interpreter/interpretable.go (evalFold).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from kubeskew.apimachinery.cel.costs.actual_costs import LIST
from kubeskew.apimachinery.cel.errors import NO_SUCH_OVERLOAD, EvaluationError
from kubeskew.apimachinery.cel.interpreter.steps import Frame, Step
from kubeskew.apimachinery.cel.parser.nodes import Call, Comprehension, ListLiteral, Node
from kubeskew.apimachinery.cel.values import type_name

_UNREAD = object()
_GO_TYPES = {
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "double": "types.Double",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "int": "types.Int",
    "null_type": "types.Null",
    "string": "types.String",
    "uint": "types.Uint",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


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
    """Returns the closure of a loop."""
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
    """Returns a function that puts each element of a container in turn into the variables' places."""
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
        raise _not_iterable(container)
    for key, item in pairs:
        places[first] = key
        places[second] = item
        yield key


def _not_iterable(value: Any) -> EvaluationError:
    name = type_name(value)
    shown = _GO_TYPES.get(name) or name.replace("kubernetes.", "cel.")
    return EvaluationError(f"got '{shown}', expected iterable type")


def _quantified(container: Step, setter: Setter, test: Step, exists: bool) -> Step:
    """Returns the step of `exists` or `all`: a failure counts only if no other element decides."""
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
    """Returns the step that makes a list: an item for each element that passes the test, if there is one."""
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
    """Returns the test, if there is one, and what is added to the list."""
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
        return value

    return read
