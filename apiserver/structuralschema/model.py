"""Parses JSONSchemaProps into trees of structural schemas, and defines resources that have one.

Source: apiextensions-apiserver pkg/apiserver/schema/{structural,convert}.go, 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from kubeskew.apimachinery import cel
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.features import Features, SchemaFeatures
from kubeskew.apiserver.structuralschema.rule_programs import BUDGET, RuleNode, compile_rules, effort
from kubeskew.apiserver.structuralschema.values import AnyFormat, NodeCheck, compile_check

# Features of the newest release, for schemas that keep every field: there the release makes no difference.
NEWEST: Final = Features.of(FeatureGates(DEFAULT_VERSION)).schemas
ANYTHING: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


class Structural:
    """A node of a schema is immutable, and so is `props`, the JSON it was made of.

    Nodes are compared by identity. `additional` is the schema of a map's values; `has_additional` is true
    also where any value goes.
    """

    def __init__(self, props: Object, features: SchemaFeatures) -> None:
        self.props = props
        self.features = features
        self.type: str = props.get("type") or ""
        self.nullable = bool(props.get("nullable"))
        self.default: Any = props.get("default")
        self.has_default = self.default is not None
        self.preserve_unknown = bool(props.get("x-kubernetes-preserve-unknown-fields"))
        self.embedded = bool(props.get("x-kubernetes-embedded-resource"))
        self.int_or_string = bool(props.get("x-kubernetes-int-or-string"))
        self.list_type: str = props.get("x-kubernetes-list-type") or "atomic"
        self.list_keys: tuple[str, ...] = tuple(props.get("x-kubernetes-list-map-keys") or ())
        self.map_type: str = props.get("x-kubernetes-map-type") or "granular"
        self.validations: tuple[Object, ...] = tuple(props.get("x-kubernetes-validations") or ())
        self.properties: Mapping[str, Structural] = {
            name: Structural(below, features) for name, below in (props.get("properties") or {}).items()
        }
        items, extra = props.get("items"), props.get("additionalProperties")
        self.items = Structural(items, features) if isinstance(items, dict) else None
        self.additional = Structural(extra, features) if isinstance(extra, dict) else None
        self.has_additional = extra is not None

    @classmethod
    def of(cls, props: Object | None, features: SchemaFeatures = NEWEST) -> "Structural":
        """Without a schema (None), every field is kept."""
        return cls(ANYTHING if props is None else props, features)

    @cached_property
    def below(self) -> tuple["Structural", ...]:
        found = (*self.properties.values(), self.items, self.additional)
        return tuple(schema for schema in found if schema is not None)

    @cached_property
    def has_defaults(self) -> bool:
        return self.has_default or any(schema.has_defaults for schema in self.below)

    @cached_property
    def defaulted(self) -> tuple[tuple[str, "Structural"], ...]:
        return tuple((name, below) for name, below in self.properties.items() if below.has_default)

    @cached_property
    def has_keyed_lists(self) -> bool:
        return self.list_type != "atomic" or any(schema.has_keyed_lists for schema in self.below)

    @cached_property
    def has_embedded(self) -> bool:
        return self.embedded or any(schema.has_embedded for schema in self.below)

    @cached_property
    def has_rules(self) -> bool:
        return bool(self.validations) or any(schema.has_rules for schema in self.below)

    @cached_property
    def check(self) -> NodeCheck:
        """Checks a resource as a whole: apiVersion and kind never ratchet."""
        return compile_check(self.props, self.features, root=True)

    @cached_property
    def check_nested(self) -> NodeCheck:
        """Checks a value inside a resource, such as its status."""
        return compile_check(self.props, self.features)

    @cached_property
    def check_default(self) -> NodeCheck:
        """In a default, what is an integer or a string may be anything, and every format counts."""
        return compile_check(_without_int_or_string(self.props), AnyFormat(self.features))

    @cached_property
    def rule_tree(self) -> RuleNode | None:
        return _rule_tree(self, root=True)

    @property
    def rule_effort(self) -> int:
        """The cost is in CEL's units, for a short object; BUDGET until the rules are compiled."""
        if not self.has_rules:
            return 0
        return self._rule_effort if "rule_tree" in self.__dict__ else BUDGET

    @cached_property
    def _rule_effort(self) -> int:
        return effort(self.rule_tree)

    @cached_property
    def nested_rule_tree(self) -> RuleNode | None:
        return _rule_tree(self, root=self.embedded)


def _rule_tree(structural: Structural, *, root: bool) -> RuleNode | None:
    """None without rules; what CEL has no type for has no rules."""
    if not structural.has_rules:
        return None
    props = structural.props
    declared = cel.declare(props, root=root)
    if declared is None:
        return None
    release = structural.features.expressions
    rules = compile_rules(structural.validations, props, declared, release, stored=lambda _: True)
    node = RuleNode(props, structural.type, declared, rules)
    if structural.items is not None:
        node.items = _rule_tree(structural.items, root=structural.items.embedded)
    if structural.additional is not None:
        node.additional = _rule_tree(structural.additional, root=structural.additional.embedded)
    for name, below in structural.properties.items():
        found = _rule_tree(below, root=below.embedded)
        if found is not None:
            node.properties[name] = found
    return node


def _without_int_or_string(props: Any) -> Any:
    if isinstance(props, dict):
        kept = {name: _without_int_or_string(prop) for name, prop in props.items()}
        kept.pop("x-kubernetes-int-or-string", None)
        return kept
    return [_without_int_or_string(prop) for prop in props] if isinstance(props, list) else props


@dataclass(frozen=True, slots=True, eq=False)
class StructuralResource(Resource):
    """Custom resources have a schema in addition to what every resource has."""

    structural: Structural | None = None


def structural_of(resource: object) -> Structural | None:
    """None for built-in resources."""
    return resource.structural if isinstance(resource, StructuralResource) else None
