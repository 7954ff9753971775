"""Types of expressions, with which the checker computes, and cel-go's texts of them.

Source: github.com/google/cel-go/common/types and checker/format.go, as of Kubernetes 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Type:
    """A type: `kind` decides how it unifies, `name` is its run-time name, `parameters` as in list(int).

    `fields` are those of an object (kind `struct`); two objects are one type if their names are the same.
    """

    kind: str
    name: str
    parameters: tuple["Type", ...] = ()
    fields: Mapping[str, "Type"] = field(default_factory=dict, compare=False, repr=False)

    def __str__(self) -> str:
        """Run-time name, as in `map(string, google.protobuf.Any)`."""
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"

    @property
    def checked(self) -> str:
        """Name in the checker's messages, as in `map(string, any)`."""
        if self.kind in _CHECKED:
            return _CHECKED[self.kind]
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(parameter.checked for parameter in self.parameters)})"


_CHECKED = {
    "any": "any",
    "duration": "duration",
    "error": "!error!",
    "null": "null",
    "timestamp": "timestamp",
}

DYN = Type("dyn", "dyn")
ANY = Type("any", "google.protobuf.Any")
ERROR = Type("error", "*error*")
NULL = Type("null", "null_type")
BOOL = Type("bool", "bool")
INT = Type("int", "int")
UINT = Type("uint", "uint")
DOUBLE = Type("double", "double")
STRING = Type("string", "string")
BYTES = Type("bytes", "bytes")
DURATION = Type("duration", "google.protobuf.Duration")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")

PRIMITIVES = frozenset({"bool", "int", "uint", "double", "string", "bytes"})
SCALARS = frozenset({"bool", "int", "uint", "double", "duration", "timestamp"})
UNKNOWN = frozenset({"dyn", "any", "error"})


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def opaque(name: str) -> Type:
    """Has no fields; only its own functions know it."""
    return Type("opaque", name)


def object_type(name: str, fields: Mapping[str, Any]) -> Type:
    """Fields may be given as types or as declarations, which have a `.type`."""
    return Type("struct", name, (), {key: getattr(value, "type", value) for key, value in fields.items()})


def type_of(value: Type) -> Type:
    return Type("type", "type", (value,))


def parameter(name: str) -> Type:
    return Type("param", name)


def is_optional(kind: Type) -> bool:
    return kind.kind == "opaque" and kind.name == "optional_type"


def unwrap_optional(kind: Type) -> tuple[Type, bool]:
    """The type within an optional, and True if it was one."""
    return (kind.parameters[0], True) if is_optional(kind) else (kind, False)


def is_dyn(kind: Type) -> bool:
    return kind.kind in ("dyn", "any")


# What an expression may call by its name as a value.
NAMED: Mapping[str, Type] = {
    **{kind.name: kind for kind in (BOOL, INT, UINT, DOUBLE, STRING, BYTES, DURATION, TIMESTAMP, DYN)},
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": Type("type", "type"),
    "optional_type": optional_of(DYN),
}
