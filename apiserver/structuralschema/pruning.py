"""Drops fields that a schema does not have, and nulls that it does not allow.

Source: apiextensions-apiserver pkg/apiserver/schema/{pruning/algorithm,defaulting/prunenulls}.go, 1.36.
"""

from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.model import Structural
from kubeskew.apiserver.structuralschema.validation_errors import Path, dotted

_META = frozenset({"apiVersion", "kind", "metadata"})


def prune(obj: Object, structural: Structural, root: bool = True) -> list[str]:
    """Works in place; the paths of unknown fields, `spec.a[0].b`, come back sorted.

    At the root (and in embedded resources) apiVersion, kind and metadata stay, no matter what the schema
    says.
    """
    unknown = prune_unknown(obj, structural, root)
    prune_nulls(obj, structural)
    return unknown


def prune_unknown(value: Any, node: Structural, resource: bool) -> list[str]:
    """Drops unknown fields only: nulls stay."""
    unknown: list[Path] = []
    _prune(value, node, None, unknown, resource)
    return sorted(map(dotted, unknown)) if unknown else []


def _prune(value: Any, node: Structural | None, path: Path, unknown: list[Path], resource: bool) -> None:
    if isinstance(value, dict):
        _prune_fields(value, node, path, unknown, resource)
    elif isinstance(value, list):
        items = node.items if node is not None else None
        keeps = node is not None and node.preserve_unknown
        for position, item in enumerate(value):
            if not isinstance(item, dict | list):
                continue
            if not keeps:
                _prune(item, items, (path, position), unknown, items is not None and items.embedded)
            elif items is not None:
                _prune_known(item, items, (path, position), unknown, items.embedded)


def _prune_fields(
    value: Object, node: Structural | None, path: Path, unknown: list[Path], resource: bool
) -> None:
    if node is None:
        unknown.extend((path, name) for name in value)
        value.clear()
        return
    if node.preserve_unknown:
        _prune_known(value, node, path, unknown, resource)
        return
    gone = []
    for name, item in value.items():
        if resource and name in _META:
            continue
        below = node.properties.get(name)
        if below is None and not node.has_additional:
            gone.append(name)
        elif isinstance(item, dict | list):
            below = below or node.additional
            _prune(item, below, (path, name), unknown, below is not None and below.embedded)
    for name in gone:
        del value[name]
    unknown.extend((path, name) for name in gone)


def _prune_known(value: Any, node: Structural, path: Path, unknown: list[Path], resource: bool) -> None:
    """Prunes, inside what is preserved, the fields that the schema does have."""
    if isinstance(value, list):
        if node.items is not None:
            for position, item in enumerate(value):
                _prune_known(item, node.items, (path, position), unknown, node.items.embedded)
        return
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        if (resource and name in _META) or not isinstance(item, dict | list):
            continue
        below = node.properties.get(name)
        if below is not None or node.has_additional:
            below = below or node.additional
            _prune(item, below, (path, name), unknown, below is not None and below.embedded)


def prune_nulls(value: Any, node: Structural | None) -> None:
    """Drops nulls of fields that are not nullable and have no default, in place; items of lists stay."""
    if isinstance(value, dict):
        if None in value.values():
            for name in [name for name, item in value.items() if item is None and _drops(_field(node, name))]:
                del value[name]
        for name, item in value.items():
            if isinstance(item, dict | list):
                prune_nulls(item, _field(node, name))
    elif isinstance(value, list):
        items = node.items if node is not None else None
        for item in value:
            if isinstance(item, dict | list):
                prune_nulls(item, items)


def _field(node: Structural | None, name: str) -> Structural | None:
    return None if node is None else node.properties.get(name, node.additional)


def _drops(node: Structural | None) -> bool:
    return node is not None and not node.nullable and not node.has_default
