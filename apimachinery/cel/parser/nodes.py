"""The syntax tree of an expression, macros expanded; `offset` is where an error about the node points to.

Nodes are compared by identity: the checker hangs types on them.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False, slots=True)
class Literal:
    value: Any
    offset: int


@dataclass(eq=False, slots=True)
class Ident:
    name: str
    offset: int


@dataclass(eq=False, slots=True)
class Select:
    """`operand.field`; `test` if it only tests for presence (`has`)."""

    operand: "Node"
    field: str
    offset: int
    test: bool = False


@dataclass(eq=False, slots=True)
class Call:
    """A function, a method (`target` is set) or an operator, named as in cel-go (`_+_`, `_[_]`, `_?._`)."""

    function: str
    arguments: tuple["Node", ...]
    offset: int
    target: "Node | None" = None


@dataclass(eq=False, slots=True)
class ListLiteral:
    """`optional` are the places of items written `?item`."""

    items: tuple["Node", ...]
    offset: int
    optional: frozenset[int] = frozenset()


@dataclass(eq=False, slots=True)
class Entry:
    """One `key: value` of a map or, with a name as key, of an object."""

    key: Any
    value: "Node"
    optional: bool
    offset: int


@dataclass(eq=False, slots=True)
class MapLiteral:
    entries: tuple[Entry, ...]
    offset: int


@dataclass(eq=False, slots=True)
class ObjectLiteral:
    name: str
    entries: tuple[Entry, ...]
    offset: int


@dataclass(eq=False, slots=True)
class Comprehension:
    """A loop: `accumulator` starts as `start`, becomes `step` for each element while `condition` holds."""

    range: "Node"
    variables: tuple[str, ...]
    accumulator: str
    start: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"
    offset: int
    macro: str = ""


Node = Literal | Ident | Select | Call | ListLiteral | MapLiteral | ObjectLiteral | Comprehension

ACCUMULATOR = "@result"
UNUSED = "#unused"
