"""The structural schema: one JSONSchemaProps parsed into a tree, compiled when first used.

Source: apiextensions-apiserver pkg/apiserver/schema/{structural,convert}.go, 1.36.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from apimachinery.errors import Object
from apimachinery.structural.rules import NEWEST, Rules

_META_TOP = ("apiVersion", "kind", "metadata")


class Structural:
    """One node of a schema. Immutable; `props` is the JSON it was made of and must not be changed either.

    Compare by identity. Everything below is plain data; `compiled` properties are made on first use.
    """

    def __init__(self, props: Object, rules: Rules) -> None:
        self.props = props
        self.rules = rules
        self.type: str = props.get("type") or ""
        self.nullable = bool(props.get("nullable"))
        self.has_default = props.get("default") is not None
        self.default: Any = props.get("default")
        self.preserve_unknown = bool(props.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(props.get("x-kubernetes-embedded-resource"))
        self.int_or_string = bool(props.get("x-kubernetes-int-or-string"))
        self.list_type: str = props.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: tuple[str, ...] = tuple(props.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = props.get("x-kubernetes-map-type") or "granular"
        self.validations: tuple[Object, ...] = tuple(props.get("x-kubernetes-validations") or ())
        self.properties: Mapping[str, Structural] = {
            name: Structural(below, rules) for name, below in (props.get("properties") or {}).items()
        }
        items = props.get("items")
        self.items = Structural(items, rules) if isinstance(items, dict) else None
        additional = props.get("additionalProperties")
        self.additional = Structural(additional, rules) if isinstance(additional, dict) else None
        self.additional_allowed = additional is True or isinstance(additional, dict)

    @classmethod
    def of(cls, props: Object | None, rules: Rules = NEWEST) -> "Structural":
        """The tree of a definition's `schema.openAPIV3Schema`; None keeps every field."""
        return cls(props if props is not None else {"x-kubernetes-preserve-unknown-fields": True}, rules)

    def below(self) -> list["Structural"]:
        """The nodes directly below."""
        found = list(self.properties.values())
        return found + [each for each in (self.items, self.additional) if each is not None]

    @cached_property
    def has_defaults(self) -> bool:
        """Whether this node or one below has a default."""
        return self.has_default or any(each.has_defaults for each in self.below())
