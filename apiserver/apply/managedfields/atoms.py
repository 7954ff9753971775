"""Tells maps, lists and scalars apart for ownership, by the schema, and the parts of each by their keys.

Source: sigs.k8s.io/structured-merge-diff/v6 (typed/helpers.go, typed/validate.go) and the conversion of
OpenAPI types into its schemas (k8s.io/kube-openapi/pkg/schemaconv), 1.36.
"""

from enum import Enum, auto
from typing import Any, Final

from kubeskew.apimachinery.golang.raw_extensions import RAW
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apiserver.apply.managedfields import path_elements
from kubeskew.apiserver.apply.patching.values import show


class Shape(Enum):
    """Names the three forms of values."""

    MAP = auto()
    LIST = auto()
    SCALAR = auto()


class _Absent:
    """Stands for no value at all, as opposed to null."""

    def __bool__(self) -> bool:
        return False


ABSENT: Final = _Absent()
ANY: Final = Schema(Kind.ANY, preserve_unknown=True)

_SHAPES = {Kind.OBJECT: Shape.MAP, Kind.MAP: Shape.MAP, Kind.LIST: Shape.LIST}
_GO_TYPES = {
    str: "string",
    bool: "bool",
    dict: "map[string]interface {}",
    list: "[]interface {}",
    int: "int64",
    float: "float64",
}


class TypedError(ValueError):
    """A value that does not fit its schema: (path as text, message) for each misfit."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        texts = [f"{path}: {message}" if path else message for path, message in problems]
        super().__init__(texts[0] if len(texts) == 1 else "\n".join(["errors:", *(f"  {t}" for t in texts)]))


class ItemError(ValueError):
    """An element that does not say which it is."""


def shape_of(schema: Schema, value: Any) -> Shape:
    """Returns the form of `value`; where the schema allows all, that of the value, and a map if
    it has none.
    """
    shape = _SHAPES.get(schema.kind)
    if shape is not None:
        return shape
    if schema.kind is not Kind.ANY:
        return Shape.SCALAR
    if isinstance(value, list):
        return Shape.LIST
    return Shape.MAP if value is None or value is ABSENT or isinstance(value, dict) else Shape.SCALAR


def is_atomic(schema: Schema) -> bool:
    """Decides whether a map or list is owned as a whole."""
    if schema.kind is Kind.LIST:
        return schema.list_type == "atomic"
    return schema.map_type == "atomic" or schema.name == RAW


def is_atomic_list(schema: Schema) -> bool:
    """Decides whether what turned out to be a list is owned as a whole: free-form lists are."""
    return schema.kind is not Kind.LIST or schema.list_type == "atomic"


def field_schema(schema: Schema, name: str) -> Schema | None:
    """Returns the schema of a map's value; None if the name is not declared."""
    found = schema.fields.get(name)
    if found is not None:
        return found.schema
    if schema.kind is Kind.OBJECT:
        return ANY if schema.preserve_unknown else schema.items
    return (schema.items or ANY) if schema.kind is Kind.MAP else ANY


def is_named(schema: Schema, name: str) -> bool:
    """Decides whether the name is a declared field, not a free key."""
    return name in schema.fields


def item_schema(schema: Schema) -> Schema:
    return schema.items or ANY


def item_element(schema: Schema, item: Any) -> str:
    """Returns the path element of an item of a set or a list with keys; raises ItemError."""
    if schema.list_keys:
        return _keyed_element(schema, item)
    if isinstance(item, dict):
        raise ItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise ItemError("not supported: associative list with lists as elements")
    if item is None:
        raise ItemError("associative list without keys has an element that's an explicit null")
    return path_elements.valued(item)


def _keyed_element(schema: Schema, item: Any) -> str:
    if item is None:
        raise ItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise ItemError("associative list with keys may not have non-map elements")
    fields = item_schema(schema).fields
    keys = {}
    for name in schema.list_keys:
        if name in item:
            keys[name] = item[name]
        elif name in fields and fields[name].has_default:
            keys[name] = fields[name].default
    if not keys:
        names = " ".join(f'"{name}"' for name in schema.list_keys)
        raise ItemError(
            f"associative list with keys has an element that omits all key fields [{names}] "
            "(and doesn't have default values for any key fields)"
        )
    return path_elements.keyed(keys)


def scalar_problem(schema: Schema, value: Any) -> str:
    """Returns the error of a scalar; empty if there is none (null always fits)."""
    if value is None or value is ABSENT:
        return ""
    kind = schema.kind
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (Kind.INTEGER, Kind.NUMBER):
        return "" if numeric else f"expected numeric (int or float), got {_GO_TYPES[type(value)]}"
    if kind is Kind.BOOLEAN:
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{show(value)}}}"
    if kind is Kind.STRING and schema.format in ("", "byte"):
        if isinstance(value, str):
            return ""
        return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    if isinstance(value, dict | list):
        return f"expected any scalar, got &{{{show(value)}}}"
    return ""


def _go_syntax(value: Any) -> str:
    """Returns a value as `%#v` prints it."""
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}":{_go_syntax(item)}' for name, item in sorted(value.items()))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    if isinstance(value, str):
        return f'"{value}"'
    return "interface {}(nil)" if value is None else show(value)
