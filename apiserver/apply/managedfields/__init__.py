"""Tracks the ownership of fields, and merges by it in server-side apply."""

from kubeskew.apiserver.apply.managedfields.field_sets import FieldSet
from kubeskew.apiserver.apply.managedfields.manager import FieldManager

__all__ = ["FieldManager", "FieldSet"]
