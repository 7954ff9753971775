"""Reads a patch strictly, and lists its fields that are unknown or given twice.

Source: k8s.io/apiserver/pkg/endpoints/handlers/patch.go over sigs.k8s.io/json, 1.36.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.field import child, index
from kubeskew.apimachinery.golang import decode_errors
from kubeskew.apiserver.decoding import decoder
from kubeskew.apiserver.decoding.pruning import duplicates

_JSON = "application/json"
_OPERATION = ("op", "path", "from", "value")


class Patch(NamedTuple):
    """Holds a patch as a JSON value, and the strict errors that reading it gave."""

    value: Any
    strict: list[str]


def read_operations(body: bytes) -> Patch:
    """Returns a JSON patch; raises 400 for what is no list of operations."""
    value = _parsed(body)
    if not isinstance(value, list | None):
        raise _no(value, "[]handlers.jsonPatchOp")
    for operation in value or []:
        _check_operation(operation)
    return Patch(
        value, [f"json patch {text}" for text in decode_errors.kept_errors(_operations(value or []))]
    )


def read_merge(body: bytes) -> Patch:
    """Returns a merge patch; raises 400 for what is no object."""
    value = _parsed(body)
    if not isinstance(value, dict | None):
        raise _no(value, "map[string]interface {}")
    return Patch(value, decode_errors.kept_errors(duplicates(value)))


def _parsed(body: bytes) -> Any:
    try:
        return decoder.parse(body, _JSON).value
    except ValueError as error:
        raise errors.bad_request(f"error decoding patch: {error}") from None


def _no(value: Any, go_type: str) -> errors.StatusError:
    why = f"json: cannot unmarshal {decode_errors.found(value)} into Go value of type {go_type}"
    return errors.bad_request(f"error decoding patch: {why}")


def _check_operation(operation: Any) -> None:
    if not isinstance(operation, dict | None):
        raise _no(operation, "handlers.jsonPatchOp")
    for name, value in (operation or {}).items():
        if name in _OPERATION[:3] and not isinstance(value, str | None):
            where = f"Go struct field jsonPatchOp.{name} of type string"
            why = f"json: cannot unmarshal {decode_errors.found(value)} into {where}"
            raise errors.bad_request(f"error decoding patch: {why}")


def _operations(operations: list[Any]) -> Iterator[str]:
    for position, operation in enumerate(operations):
        if not isinstance(operation, dict):
            continue
        for name, item, again in decode_errors.members(operation):
            at = child(index("", position), name)
            if name not in _OPERATION:
                yield f'unknown field "{at}"'
                continue
            if again:
                yield f'duplicate field "{at}"'
            if name == "value":
                yield from duplicates(item, at)
