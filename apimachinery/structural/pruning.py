from typing import Any

from apimachinery.errors import Object
from apimachinery.structural.model import Structural


def prune(obj: Object, structural: Structural, root: bool = True) -> list[str]:
    """Drop fields that the schema does not have, in place; their paths, `spec.a[0].b`, sorted."""
    paths: list[str] = []
    _prune(obj, structural, "", paths, root)
    return sorted(paths)


def _prune(value: Any, structural: Structural | None, path: str, paths: list[str], root: bool = False) -> None:
    if structural is None:
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            _prune(item, structural.items, f"{path}[{i}]", paths)
    elif isinstance(value, dict):
        for key in list(value):
            at = f"{path}.{key}" if path else key
            if (root or structural.embedded) and key in ("apiVersion", "kind", "metadata"):
                continue
            if key in structural.properties:
                _prune(value[key], structural.properties[key], at, paths)
            elif structural.additional is not None:
                _prune(value[key], structural.additional, at, paths)
            elif not structural.preserve_unknown and not structural.additional_allowed:
                del value[key]
                paths.append(at)
