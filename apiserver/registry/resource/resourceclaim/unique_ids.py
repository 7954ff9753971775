"""Checks UIDs, which have one form in Kubernetes.

Source: pkg/apis/resource/validation/validation.go (validateUID), 1.34, and the UUID library there.
"""

import re
from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, invalid

_PLAIN = re.compile(r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_PREFIX = "urn:uuid:"
_SIZE = 36
_TEXT = (
    "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase "
    "hexadecimal characters"
)


def unique_id_errors(value: str, path: str) -> Iterator[FieldError]:
    wrong = _wrong(value)
    if wrong:
        yield invalid(path, value, f"error validating uid: {wrong}")
    elif len(value) != _SIZE or value != value.lower():
        yield invalid(path, value, _TEXT)


def _wrong(value: str) -> str:
    """Returns the library's error for a text that is no UUID in any of its forms."""
    size = len(value.encode())
    if size == _SIZE + len(_PREFIX):
        if value[: len(_PREFIX)].lower() != _PREFIX:
            return f'invalid urn prefix: "{value[: len(_PREFIX)]}"'
        value = value[len(_PREFIX) :]
    elif size == _SIZE + 2:
        if (value[0], value[-1]) != ("{", "}"):
            return "invalid bracketed UUID format"
        value = value[1:-1]
    elif size == _SIZE - 4:
        return "" if re.fullmatch("[0-9A-Fa-f]{32}", value) else "invalid UUID format"
    elif size != _SIZE:
        return f"invalid UUID length: {size}"
    return "" if _PLAIN.fullmatch(value) else "invalid UUID format"
