"""Checks the data that config maps and secrets hold: size and immutability."""

import base64

from kubeskew.apimachinery.field import FieldError, forbidden
from kubeskew.apimachinery.objects import Object

MAX_DATA_BYTES = 1024 * 1024

_IMMUTABLE_DATA = "field is immutable when `immutable` is set"


def data_size(obj: Object, *fields: str) -> int:
    size = 0
    for field in fields:
        for value in (obj.get(field) or {}).values():
            size += (
                len(base64.b64decode(value or ""))
                if field != "data" or obj["kind"] == "Secret"
                else len(value.encode())
            )
    return size


def immutable_errors(new: Object, old: Object, *fields: str) -> list[FieldError]:
    """Returns an error for each field changed in an `immutable` object."""
    if not old.get("immutable"):
        return []
    errors = []
    if not new.get("immutable"):
        errors.append(forbidden("immutable", _IMMUTABLE_DATA))
    errors += [forbidden(name, _IMMUTABLE_DATA) for name in fields if new.get(name) != old.get(name)]
    return errors
