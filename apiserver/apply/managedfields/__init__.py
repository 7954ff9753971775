"""Field ownership and server-side apply: who set which field of an object, and merging by that."""

from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet
from kubeskew.apiserver.apply.managedfields.manager import FieldManager

__all__ = ["FieldManager", "FieldSet"]
