"""Defines `Object`, the JSON of an API object: every module that handles objects shares this name."""

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]
ObjectView = Mapping[str, Any]  # an object, or a part of one, that is only read
