"""Defines `Object`, the JSON of an API object: every module that handles objects shares this name."""

from typing import Any

Object = dict[str, Any]
