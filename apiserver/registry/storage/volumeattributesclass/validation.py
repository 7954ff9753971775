"""Checks VolumeAttributesClasses.

Source: pkg/apis/storage/validation/validation.go, 1.36.
"""

from collections.abc import Iterator

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import (
    FieldError,
    forbidden,
    invalid,
    required,
    too_long,
)
from kubeskew.apimachinery.objects import Object

_MAX_PARAMETER_BYTES = 256 * 1024

_MAX_PARAMETERS = 512


def attributes_errors(obj: Object) -> Iterator[FieldError]:
    """Checks a VolumeAttributesClass."""
    driver, parameters = obj.get("driverName") or "", obj.get("parameters") or {}
    if not driver:
        yield required("driverName")
    else:
        yield from (
            invalid("driverName", driver.lower(), text) for text in names.qualified_name(driver.lower())
        )
    if len(parameters) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in parameters:
        yield invalid("parameters", "", "field can not be empty.")
    if (
        sum(len(name.encode()) + len(value.encode()) for name, value in parameters.items())
        > _MAX_PARAMETER_BYTES
    ):
        yield too_long("parameters", _MAX_PARAMETER_BYTES)
    if not parameters:
        yield required("parameters", "must contain at least one key/value pair")


def attributes_update_errors(new: Object, old: Object) -> Iterator[FieldError]:
    for name in ("driverName", "parameters"):
        if (new.get(name) or None) != (old.get(name) or None):
            yield forbidden(name, f"updates to {name} are forbidden.")
