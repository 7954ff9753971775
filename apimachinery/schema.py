"""The schema of a value: data only. Decoding, defaulting, patches and OpenAPI are modules that walk it.

A built-in type's tree comes from the catalogue, a custom resource's from its definition. Trees may be
recursive (`JSONSchemaProps`): walk them along a value, or remember where you were.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# The name of the JSON type, which is decoded and encoded again, not kept as it was sent.
JSON = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"

# Rules of declarative validation, as the catalogue has them: ["maxItems", 8], ["eachVal", ["maxLength", 5]].
Rule = Sequence[Any]
Rules = Sequence[Rule]


class Kind(StrEnum):
    """The shape of a value on the wire."""

    OBJECT = "object"  # a struct: known fields
    MAP = "map"  # free keys, `items` is the schema of the values
    LIST = "list"
    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    INT_OR_STRING = "int-or-string"
    QUANTITY = "quantity"
    ANY = "any"  # RawExtension, JSON: kept as it is


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of one value. `name` is the OpenAPI definition's name of a named struct, else empty.

    `fields` and `items` may be filled in after construction by the builder (recursion), never later.
    """

    kind: Kind
    name: str = ""
    format: str = ""  # int32, int64, double, byte, date-time, micro-time, duration
    fields: Mapping[str, "Field"] = field(default_factory=dict)
    items: "Schema | None" = None
    list_type: str = "atomic"  # atomic, set, map
    list_keys: tuple[str, ...] = ()
    list_type_implied: bool = False  # by the patch strategy or by nothing: OpenAPI does not publish it
    map_type: str = "granular"  # granular, atomic (structs too)
    enum: tuple[str, ...] = ()
    nullable: bool = False
    preserve_unknown: bool = False  # x-kubernetes-preserve-unknown-fields
    go_name: str = ""  # name of a Go type for a string, list or map: v1.ResourceList
    # Defaults that functions set, by paths such as `spec.ports[].protocol`; OpenAPI does not publish them.
    path_defaults: Mapping[str, Any] = field(default_factory=dict)
    release: str = ""  # of a struct of an imported release: its name, for it has field numbers of its own
    rules: Rules = ()  # of declarative validation, of the struct itself
    in_order: bool = False  # the fields stand as in Go's struct


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    schema: Schema
    required: bool = False
    default: Any = None
    has_default: bool = False
    gates: tuple[str, ...] = ()  # all of them must be on, else the field is dropped
    patch_strategy: tuple[str, ...] = ()  # merge, replace, retainKeys
    patch_merge_key: str = ""
    omit_empty: bool = True  # Go's omitempty: an empty value is not written
    pointer: bool = False  # Go pointer: present-but-zero differs from absent
    rules: Rules = ()  # of declarative validation
    embedded: tuple[str, ...] = ()  # Go structs inside the struct that the field is in, as errors show them
