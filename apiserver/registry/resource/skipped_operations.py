"""Validates the list of driver calls that a slice or result declares unneeded (1.37).

Source: pkg/apis/resource/validation/validation.go (validateSkipNodeOperations), 1.37.
"""

from collections.abc import Iterator

from kubeskew.apimachinery.field import FieldError, duplicate, index, invalid, not_supported
from kubeskew.apiserver.registry.shared.repeats import repeats

_ALL = "*"
_PREPARE = "NodePrepareResources"
_UNPREPARE = "NodeUnprepareResources"
_SUPPORTED = (_ALL, _PREPARE, _UNPREPARE)
_TEXT = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"


def skipped_operation_errors(operations: list[str] | None, path: str) -> Iterator[FieldError]:
    listed = operations or []
    if _PREPARE in listed and _UNPREPARE not in listed and _ALL not in listed:
        yield invalid(path, listed, _TEXT)
    repeated = repeats(listed)
    for position, operation in enumerate(listed):
        if operation not in _SUPPORTED:
            yield not_supported(index(path, position), operation, _SUPPORTED)
        if position in repeated:
            yield duplicate(index(path, position), operation)
