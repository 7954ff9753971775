"""Reads JSON as the kubelet's checkpoint manager does (pkg/kubelet/checkpointmanager, encoding/json)."""

from collections.abc import Mapping
from typing import Any

import orjson

from kubeskew.apimachinery.golang import json_syntax

CORRUPTED = "checkpoint is corrupted"


class CheckpointError(Exception):
    """The checkpoint cannot be read; the text is upstream's.

    A kubelet that does not start because of it ends with `exit_code`.
    """

    exit_code = 1


class PanicError(CheckpointError):
    """The checkpoint cannot be read, and the kubelet panics.

    pkg/kubelet/status/status_manager.go up to 1.32, pkg/kubelet/allocation/allocation_manager.go since.
    """

    exit_code = 2


def parsed(content: bytes, go_type: str = "") -> Mapping[str, Any]:
    """Returns the members of a JSON object, their names in lower case: Go finds them whatever their case.

    Raises CheckpointError, worded as encoding/json words it; `go_type` is the struct that is read into.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CheckpointError(go_text(content, error)) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        of_type = f" of type {go_type}" if go_type else ""
        raise CheckpointError(f"json: cannot unmarshal {kind_of(value)} into Go value{of_type}")
    return {name.lower(): member for name, member in value.items()}


def go_text(content: bytes, error: ValueError) -> str:
    """Words the error as encoding/json does; keeps the parser's own text if Go would read the content."""
    try:
        json_syntax.check(content)
    except json_syntax.JSONSyntaxError as found:
        return str(found)
    return str(error)


def kind_of(value: Any) -> str:
    """Names the kind of a JSON value as encoding/json does."""
    kinds: tuple[tuple[type, str], ...] = ((bool, "bool"), (dict, "object"), (list, "array"), (str, "string"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "number")


def unfit(value: Any, field: str, go_type: str) -> CheckpointError:
    """Returns the error of a value that does not fit its field, such as `Checkpoint.entries`."""
    text = f"json: cannot unmarshal {kind_of(value)} into Go struct field {field} of type {go_type}"
    return CheckpointError(text)


def text_of(members: Mapping[str, Any], name: str, struct: str, default: str = "") -> str:
    """Returns a member that has to be a string; an absent one is the default, which the struct had before.

    Raises CheckpointError.
    """
    value = members.get(name.lower())
    if value is None:
        return default
    if not isinstance(value, str):
        raise unfit(value, f"{struct}.{name}", "string")
    return value


def sum_of(
    members: Mapping[str, Any], name: str, struct: str, default: int = 0, go_type: str = "checksum.Checksum"
) -> int:
    """Returns a member that has to be a checksum; an absent one is the default. Raises CheckpointError."""
    value = members.get(name.lower())
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise unfit(value, f"{struct}.{name}", go_type)
    return value


def mapping_of(members: Mapping[str, Any], name: str, struct: str, go_type: str) -> dict[str, Any] | None:
    """Returns a member that has to be an object; None for null, which is Go's nil, while an absent one is
    empty. Raises CheckpointError."""
    value = members.get(name.lower(), {})
    if value is not None and not isinstance(value, dict):
        raise unfit(value, f"{struct}.{name}", go_type)
    return value
