"""Conversion between the versions of a kind: `convert` is the way in."""

from kubeskew.apimachinery.conversion.scheme import CONVERTERS, convert, converters

__all__ = ["CONVERTERS", "convert", "converters"]
