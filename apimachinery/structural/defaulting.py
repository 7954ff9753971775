import copy
from typing import Any

from apimachinery.errors import Object
from apimachinery.structural.model import Structural


def default(obj: Object, structural: Structural) -> None:
    """Drop nulls that have a default and fill defaults in, in place."""
    _default(obj, structural)


def _default(value: Any, structural: Structural | None) -> None:
    if structural is None or not structural.has_defaults:
        return
    if isinstance(value, dict):
        for name, below in structural.properties.items():
            if name in value and value[name] is None and below.has_default and not below.nullable:
                del value[name]
            if name not in value and below.has_default:
                value[name] = copy.deepcopy(below.default)
            _default(value.get(name), below)
        if structural.additional is not None:
            for key in value:
                if key not in structural.properties:
                    _default(value[key], structural.additional)
    elif isinstance(value, list):
        for item in value:
            _default(item, structural.items)
