"""The syntax tree of an expression; `offset` is where an error about the node points to."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Literal:
    value: Any
    offset: int


@dataclass(frozen=True, slots=True)
class Ident:
    name: str
    offset: int


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field` or `operand.?field`."""

    operand: "Node"
    field: str
    optional: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Index:
    """`operand[key]` or `operand[?key]`."""

    operand: "Node"
    key: "Node"
    optional: bool
    offset: int


@dataclass(frozen=True, slots=True)
class Call:
    """A function, a method (`target` is set) or an operator, named as in cel-go (`_+_`, `!_`, `_?_:_`)."""

    function: str
    arguments: tuple["Node", ...]
    target: "Node | None"
    offset: int


@dataclass(frozen=True, slots=True)
class ListLiteral:
    items: tuple["Node", ...]
    offset: int


@dataclass(frozen=True, slots=True)
class MapLiteral:
    entries: tuple[tuple["Node", "Node"], ...]
    offset: int


Node = Literal | Ident | Select | Index | Call | ListLiteral | MapLiteral
