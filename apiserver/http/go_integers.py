"""Reads lists of 32 bit numbers in a query (conversion.Convert_Slice_string_To_Slice_int32)."""

from collections.abc import Sequence

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.go_numbers import parse_int


def parse_int32s(texts: Sequence[str]) -> list[int]:
    """Returns the numbers; values may be lists with commas. Raises 400."""
    try:
        return [parse_int(word) for text in texts for word in text.split(",")]
    except ValueError as error:
        raise errors.bad_request(str(error)) from None
