"""Declared types: a type with the known sizes of its values; property names as CEL identifiers.

Source: k8s.io/apiserver/pkg/cel (types.go, escaping.go), 1.36.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.costs import LARGEST, Range
from kubeskew.apimachinery.cel.types import Type
from kubeskew.apimachinery.memo import remembered

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_NAME = re.compile(r"[A-Za-z_./-][A-Za-z0-9_./-]*")
_ESCAPED = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_PART = re.compile(r"__|[.\-/]")
_BACK = {escaped: plain for plain, escaped in _ESCAPED.items()}
_SEQUENCE = re.compile(r"__[^_]+__")


@remembered(8192)
def escape(name: str) -> str | None:
    """None if the property has no identifier, so that expressions cannot name it."""
    if not _NAME.fullmatch(name):
        return None
    if name in _RESERVED:
        return f"__{name}__"
    return _PART.sub(lambda found: _ESCAPED[found.group()], name)


@remembered(8192)
def unescape(identifier: str) -> str | None:
    """None if the identifier contains an unknown escape sequence.

    Underscores outside of sequences stand for themselves, so the identifier need not come from `escape`.
    """
    sequences = _SEQUENCE.findall(identifier)
    if sequences == [identifier] and identifier[2:-2] in _RESERVED:
        return identifier[2:-2]
    if not _BACK.keys() >= set(sequences):
        return None
    return _SEQUENCE.sub(lambda found: _BACK[found.group()], identifier)


def keyword_field(name: str) -> str:
    """Escapes a property that is named like a reserved word; any other name stays."""
    return f"__{name}__" if name in _RESERVED else name


@dataclass(frozen=True, eq=False, slots=True)
class Declared:
    """A type with the known sizes of its values.

    `most` is the largest number of elements (characters, items, entries); `smallest` is the least number of
    bytes as JSON. `fields` are by CEL name (escaped); `any_field` is the declaration of every other name.
    `schema` is the structural schema it was made of, if any; `plain` is true if its values are JSON as they
    stand. Unless `sized`, no size is known.
    """

    type: Type
    most: int = 0
    fields: Mapping[str, "Declared"] = field(default_factory=dict)
    key: "Declared | None" = None
    element: "Declared | None" = None
    smallest: int = 0
    sized: bool = True
    any_field: "Declared | None" = None
    schema: Mapping[str, Any] | None = None
    plain: bool = True


def declared_of(kind: Type | Declared) -> Declared:
    """Plain types become declarations without sizes."""
    return kind if isinstance(kind, Declared) else Declared(kind, sized=False)


def declared_map(key: Declared, value: Declared, most: int) -> Declared:
    return Declared(types.map_of(key.type, value.type), most, key=key, element=value, smallest=2)


def size_at(variables: Mapping[str, Declared], path: tuple[str, ...]) -> Range | None:
    """Follows `path` from a variable; None if the declarations leave the size open."""
    current = variables.get(path[0])
    for step in path[1:]:
        if current is None:
            return None
        if step in ("@items", "@values"):
            current = current.element
        elif step == "@keys":
            current = current.key
        else:
            current = current.fields.get(step) or (current.any_field)
    if current is None or not current.sized:
        return None
    return Range(0, min(current.most, LARGEST))
