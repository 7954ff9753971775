"""Conversion between the versions of a kind: `convert` is the way in."""

from kubeskew.apimachinery.conversion.converting import CONVERTERS, convert, converters

__all__ = ["CONVERTERS", "convert", "converters"]
