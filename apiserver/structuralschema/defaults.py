"""Fills in defaults of structural schemas, and checks which of them a definition may have.

Sources: apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go, 1.36; apiextensions-apiserver
pkg/apiserver/schema/defaulting/validation.go, 1.36.
"""

from copy import deepcopy
from typing import Any

from kubeskew.apimachinery.field import FieldError, invalid, key
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.expressions import validate_default
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.objects import (
    CoercionError,
    coerce,
    validate_default_values,
    validate_embedded,
)
from kubeskew.apiserver.structuralschema.pruning import prune_unknown
from kubeskew.apiserver.structuralschema.validation_errors import child, sorted_maps
from kubeskew.apiserver.structuralschema.values import equal

_META = frozenset({"apiVersion", "kind", "metadata"})
_Steps = tuple[str | int, ...]


def default(obj: Object, structural: Structural) -> None:
    """Fills defaults in, in place; a null that is not allowed gives way to its default."""
    if structural.has_defaults:
        _default(obj, structural)


def _default(value: Any, node: Structural) -> None:
    if isinstance(value, dict):
        for name, below in node.defaulted:
            if name not in value or (value[name] is None and not below.nullable):
                value[name] = deepcopy(below.default)
        for name, item in value.items():
            field = node.properties.get(name, node.additional)
            if field is None or not field.has_defaults:
                continue
            if item is None and not field.nullable and name not in node.properties:
                value[name] = item = deepcopy(field.default)
            _default(item, field)
    elif isinstance(value, list) and node.items is not None and node.items.has_defaults:
        for position, item in enumerate(value):
            if item is None and not node.items.nullable:
                value[position] = item = deepcopy(node.items.default)
            _default(item, node.items)


def check_defaults(root: Structural, path: str) -> list[FieldError]:
    """Defaults of a map's values are not looked at."""
    return _Checker(root).walk(root, path, (), inside_metadata=False, resource=True)


class _Checker:
    def __init__(self, root: Structural) -> None:
        self.root = root

    def walk(
        self, node: Structural, path: str, steps: _Steps, *, inside_metadata: bool, resource: bool
    ) -> list[FieldError]:
        if node.embedded or resource:
            inside_metadata, steps, self.root = False, (), node
        root = self.root
        errors: list[FieldError] = []
        if node.has_default:
            at = child(path, "default")
            errors += (
                self._in_metadata(node, at, steps)
                if inside_metadata
                else _plain(node, at, resource=node.embedded or resource)
            )
        if node.items is not None:
            errors += self.walk(
                node.items, child(path, "items"), (*steps, 0), inside_metadata=inside_metadata, resource=False
            )
        for name, below in node.properties.items():
            inside = inside_metadata or ((node.embedded or resource) and name in _META)
            at = key(child(path, "properties"), name)
            errors += self.walk(below, at, (*steps, name), inside_metadata=inside, resource=False)
            self.root = root
        return errors

    def _in_metadata(self, node: Structural, at: str, steps: _Steps) -> list[FieldError]:
        """Checks a default of metadata inside an otherwise empty resource."""
        obj = _surrounded(deepcopy(node.default), steps)
        try:
            coerce(obj, self.root, root=True)
        except CoercionError as error:
            return [invalid(at, sorted_maps(node.default), f"must result in valid metadata: {error}")]
        errors = validate_embedded(obj, self.root, root=True)
        if errors:
            listed = ", ".join(map(str, errors))
            listed = f"[{listed}]" if len(errors) > 1 else listed
            return [invalid(at, sorted_maps(node.default), f"must result in valid metadata: {listed}")]
        return validate_default_values(node.default, node, at)


def _surrounded(value: Any, steps: _Steps) -> Any:
    for step in reversed(steps):
        value = [value] if isinstance(step, int) else {step: value}
    return {"apiVersion": "validation/v1", "kind": "Validation", **value}


def _plain(node: Structural, at: str, *, resource: bool) -> list[FieldError]:
    value = node.default
    pruned = deepcopy(value)
    prune_unknown(pruned, node, resource)
    known = equal(pruned, value)
    try:
        coerce(value, node, at, root=resource)  # in place: the definition loses unknown metadata, as upstream
    except CoercionError as error:
        return [*_unknown(value, known, at), error.error]
    of_fields = _unknown(value, known, at)
    of_values = validate_embedded(value, node, at, root=resource) or validate_default_values(value, node, at)
    if not of_values and node.has_rules:
        of_values = validate_default(value, node, at)
    return of_fields + of_values


def _unknown(value: Any, known: bool, at: str) -> list[FieldError]:
    return [] if known else [invalid(at, sorted_maps(value), "must not have unknown fields")]
