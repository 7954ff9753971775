"""Checks the names of CSI drivers.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    invalid,
    required,
    too_long,
)

_MAX_NAME = 63


def driver_name_errors(name: str, path: str) -> Iterator[FieldError]:
    if not name:
        yield required(path)
    if len(name.encode()) > _MAX_NAME:
        yield too_long(path, _MAX_NAME)
    yield from (invalid(path, name, text) for text in names.dns1123_subdomain(name.lower()))
