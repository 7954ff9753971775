"""Declared types: a type with what is known of the sizes of its values.

Source: k8s.io/apiserver/pkg/cel/types.go, 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.costs.estimates import LARGEST, Range
from kubeskew.apimachinery.cel.types import Type


@dataclass(frozen=True, eq=False, slots=True)
class Declared:
    """A type with what is known of the sizes of its values.

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
    """Returns a plain type as a declaration without sizes."""
    return kind if isinstance(kind, Declared) else Declared(kind, sized=False)


def declared_map(key: Declared, value: Declared, most: int) -> Declared:
    return Declared(types.map_of(key.type, value.type), most, key=key, element=value, smallest=2)


def size_at(variables: Mapping[str, Declared], path: tuple[str, ...]) -> Range | None:
    """Returns the size of what `path` leads to from a variable; None if the declarations do not say."""
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
