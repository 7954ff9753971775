"""Reads JSON as the kubelet's checkpoint manager does (pkg/kubelet/checkpointmanager, encoding/json)."""

from collections.abc import Mapping
from typing import Any

import orjson

from kubeskew.apimachinery.golang import json_syntax

CORRUPTED = "checkpoint is corrupted"


class CheckpointError(Exception):
    """The checkpoint cannot be read; the text is upstream's."""


def parsed(content: bytes) -> Mapping[str, Any]:
    """Returns the members of a JSON object, their names in lower case: Go finds them whatever their case.

    Raises CheckpointError, worded as encoding/json words it.
    """
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise CheckpointError(go_text(content, error)) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CheckpointError(f"json: cannot unmarshal {kind_of(value)} into Go value")
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


def text_of(members: Mapping[str, Any], name: str, struct: str) -> str:
    """Returns a member that has to be a string; absent ones are empty. Raises CheckpointError."""
    value = members.get(name.lower())
    if value is None:
        return ""
    if not isinstance(value, str):
        raise unfit(value, f"{struct}.{name}", "string")
    return value


def sum_of(members: Mapping[str, Any], name: str, struct: str) -> int:
    """Returns a member that has to be a checksum; absent ones are 0. Raises CheckpointError."""
    value = members.get(name.lower())
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise unfit(value, f"{struct}.{name}", "checksum.Checksum")
    return value


def mapping_of(members: Mapping[str, Any], name: str, struct: str, go_type: str) -> dict[str, Any] | None:
    """Returns a member that has to be an object; None for null, which is Go's nil, while an absent one is
    empty. Raises CheckpointError."""
    value = members.get(name.lower(), {})
    if value is not None and not isinstance(value, dict):
        raise unfit(value, f"{struct}.{name}", go_type)
    return value
