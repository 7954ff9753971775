"""Expands macros while parsing: calls that are really loops or tests.

Source: github.com/google/cel-go/parser/macro.go, cel/library.go (optMap), ext/bindings.go and
ext/comprehensions.go; the shape of an expansion decides its cost.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy

from kubeskew.apimachinery.cel.parser.nodes import (
    ACCUMULATOR,
    UNUSED,
    Call,
    Comprehension,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)


class MacroError(Exception):
    """A call is a macro by name and number of arguments, but its arguments have the wrong form."""

    def __init__(self, node: Node, message: str) -> None:
        super().__init__(message)
        self.offset = node.offset


# Gets the target, the arguments and the call's offset; None means an ordinary call.
Macro = Callable[[Node | None, tuple[Node, ...], int], Node | None]


def _has(_: Node | None, arguments: tuple[Node, ...], offset: int) -> Node:
    (argument,) = arguments
    if not isinstance(argument, Select) or argument.test:
        raise MacroError(argument, "invalid argument to has() macro")
    return Select(argument.operand, argument.field, offset, test=True)


def _names(arguments: tuple[Node, ...], count: int) -> tuple[str, ...]:
    names: list[str] = []
    for node in arguments[:count]:
        if not isinstance(node, Ident):
            raise MacroError(node, "argument must be a simple name")
        if node.name in (ACCUMULATOR, "__result__"):
            raise MacroError(node, "iteration variable overwrites accumulator variable")
        if node.name in names:
            raise MacroError(node, f"duplicate variable name: {node.name}")
        names.append(node.name)
    return tuple(names)


def _accumulated(offset: int) -> Node:
    return Ident(ACCUMULATOR, offset)


def _quantifier(macro: str, count: int) -> Macro:
    def expand(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
        if target is None:
            return None
        names, body = _names(arguments, count), arguments[count]
        accumulated = _accumulated(offset)
        if macro == "all":
            start: Node = Literal(True, offset)
            condition: Node = Call("@not_strictly_false", (accumulated,), offset)
            step: Node = Call("_&&_", (_accumulated(offset), body), offset)
            result: Node = _accumulated(offset)
        elif macro == "exists":
            start = Literal(False, offset)
            negated = Call("!_", (accumulated,), offset)
            condition = Call("@not_strictly_false", (negated,), offset)
            step = Call("_||_", (_accumulated(offset), body), offset)
            result = _accumulated(offset)
        else:
            start, condition = Literal(0, offset), Literal(True, offset)
            counted = Call("_+_", (accumulated, Literal(1, offset)), offset)
            step = Call("_?_:_", (body, counted, _accumulated(offset)), offset)
            result = Call("_==_", (_accumulated(offset), Literal(1, offset)), offset)
        return Comprehension(target, names, ACCUMULATOR, start, condition, step, result, offset, macro)

    return expand


def _collected(target: Node, names: tuple[str, ...], item: Node, test: Node | None, offset: int) -> Node:
    step: Node = Call("_+_", (_accumulated(offset), ListLiteral((item,), offset)), offset)
    if test is not None:
        step = Call("_?_:_", (test, step, _accumulated(offset)), offset)
    start, condition = ListLiteral((), offset), Literal(True, offset)
    return Comprehension(
        target, names, ACCUMULATOR, start, condition, step, _accumulated(offset), offset, "collect"
    )


def _map(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
    if target is None:
        return None
    if not isinstance(arguments[0], Ident):
        raise MacroError(arguments[0], "argument is not an identifier")
    test = arguments[1] if len(arguments) == 3 else None
    return _collected(target, _names(arguments, 1), arguments[-1], test, offset)


def _filter(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
    if target is None:
        return None
    if not isinstance(arguments[0], Ident):
        raise MacroError(arguments[0], "argument is not an identifier")
    return _collected(target, _names(arguments, 1), arguments[0], arguments[1], offset)


def _transform_list(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
    if target is None:
        return None
    test = arguments[2] if len(arguments) == 4 else None
    return _collected(target, _names(arguments, 2), arguments[-1], test, offset)


def _transform_map(entries: bool) -> Macro:
    def expand(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
        if target is None:
            return None
        names = _names(arguments, 2)
        test = arguments[2] if len(arguments) == 4 else None
        inserted = (arguments[-1],) if entries else (Ident(names[0], offset), arguments[-1])
        step: Node = Call("cel.@mapInsert", (_accumulated(offset), *inserted), offset)
        if test is not None:
            step = Call("_?_:_", (test, step, _accumulated(offset)), offset)
        start, condition = MapLiteral((), offset), Literal(True, offset)
        return Comprehension(target, names, ACCUMULATOR, start, condition, step, _accumulated(offset), offset)

    return expand


def bound(name: str, value: Node, body: Node, offset: int) -> Node:
    """`name` stands for `value` within `body`; the value is evaluated when it is first needed."""
    nothing, never = ListLiteral((), offset), Literal(False, offset)
    itself = Ident(name, offset)
    return Comprehension(nothing, (UNUSED,), name, value, never, itself, body, offset, "bind")


def _bind(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
    if not (isinstance(target, Ident) and target.name == "cel"):
        return None
    name, value, body = arguments
    if not isinstance(name, Ident):
        raise MacroError(name, "cel.bind() variable names must be simple identifiers")
    return bound(name.name, value, body, offset)


def _optional_map(function: str) -> Macro:
    def expand(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
        name, body = arguments
        if target is None:
            return None
        if not isinstance(name, Ident):
            raise MacroError(name, f"{function}() variable name must be a simple identifier")
        # The copy is checked for itself, so that what is wrong with it is reported twice.
        mapped = bound(name.name, Call("value", (), offset, deepcopy(target)), body, offset)
        if function == "optMap":
            mapped = Call("optional.of", (mapped,), offset)
        present = Call("hasValue", (), offset, target)
        return Call("_?_:_", (present, mapped, Call("optional.none", (), offset)), offset)

    return expand


Macros = Mapping[tuple[str, bool, int], Macro]

# (name, is a method, number of arguments)
STANDARD: Macros = {
    ("has", False, 1): _has,
    ("all", True, 2): _quantifier("all", 1),
    ("exists", True, 2): _quantifier("exists", 1),
    ("exists_one", True, 2): _quantifier("exists_one", 1),
    ("filter", True, 2): _filter,
    ("map", True, 2): _map,
    ("map", True, 3): _map,
}
TWO_VARIABLES: Macros = {
    ("all", True, 3): _quantifier("all", 2),
    ("exists", True, 3): _quantifier("exists", 2),
    ("exists_one", True, 3): _quantifier("exists_one", 2),
    ("existsOne", True, 3): _quantifier("exists_one", 2),
    ("transformList", True, 3): _transform_list,
    ("transformList", True, 4): _transform_list,
    ("transformMap", True, 3): _transform_map(entries=False),
    ("transformMap", True, 4): _transform_map(entries=False),
    ("transformMapEntry", True, 3): _transform_map(entries=True),
    ("transformMapEntry", True, 4): _transform_map(entries=True),
}
OPTIONALS: Macros = {
    ("optMap", True, 2): _optional_map("optMap"),
    ("optFlatMap", True, 2): _optional_map("optFlatMap"),
}


def _sort_by(target: Node | None, arguments: tuple[Node, ...], offset: int) -> Node | None:
    if target is None:
        return None
    if isinstance(target, Literal | MapLiteral):
        what = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target, what)
    name = "@__sortBy_input__"
    keys = _map(Ident(name, offset), arguments, offset)
    if keys is None:
        return None
    ordered = Call("@sortByAssociatedKeys", (keys,), offset, Ident(name, offset))
    return bound(name, target, ordered, offset)


EXTENDED_LISTS: Macros = {("sortBy", True, 2): _sort_by}
BINDINGS: Macros = {("bind", True, 3): _bind}
