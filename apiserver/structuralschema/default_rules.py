"""Checks the defaults of a schema: they must be valid themselves and hold no unknown fields.

Source: apiextensions-apiserver pkg/apiserver/schema/defaulting/validation.go, 1.36.
"""

from copy import deepcopy
from typing import Any

from kubeskew.apimachinery.field import FieldError, invalid, key
from kubeskew.apiserver.structuralschema.correlation import equal
from kubeskew.apiserver.structuralschema.embedded import CoercionError, coerce, validate_embedded
from kubeskew.apiserver.structuralschema.expressions import validate_default
from kubeskew.apiserver.structuralschema.kinds import sorted_maps
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.objects import validate_default_values
from kubeskew.apiserver.structuralschema.paths import child
from kubeskew.apiserver.structuralschema.pruning import prune_unknown

_META = frozenset({"apiVersion", "kind", "metadata"})
_Steps = tuple[str | int, ...]


def check_defaults(root: Structural, path: str) -> list[FieldError]:
    """Returns errors of every default below a resource's schema; those of a map's values are not
    looked at.
    """
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
