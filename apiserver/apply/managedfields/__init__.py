"""Tracks the ownership of fields, and merges by it in server-side apply."""

from kubeskew.apiserver.apply.managedfields.field_manager import FieldManager
from kubeskew.apiserver.apply.managedfields.fieldpath import FieldSet

__all__ = ["FieldManager", "FieldSet"]
