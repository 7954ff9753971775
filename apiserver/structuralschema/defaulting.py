"""Fills in defaults.

Source: apiextensions-apiserver pkg/apiserver/schema/defaulting/algorithm.go, 1.36.
"""

from copy import deepcopy
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.structuralschema.model import Structural


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
