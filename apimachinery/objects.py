"""Defines `Object`, the JSON of an API object: every module that handles objects shares this name."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
ObjectView = Mapping[str, Any]  # an object, or a part of one, that is only read


def is_resync(old: Object, new: Object) -> bool:
    """True for an update without a write: the object was listed again, and a server of another version shows
    the same state otherwise. Handlers leave these out where upstream's compare resource versions.
    """
    return bool(old["metadata"].get("resourceVersion") == new["metadata"].get("resourceVersion"))
