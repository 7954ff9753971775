"""Reads JSON as the kubelet's checkpoint manager does, and computes the checksums of its older checkpoints.

Such a checksum is FNV-1a of how Go's spew prints the structs (`%#v` with sorted keys). A value is put
together from `string`, `number`, `items`, `mapping` and `struct`; types are named as Go does.

Sources: pkg/kubelet/checkpointmanager and its checksum, pkg/util/hash, encoding/json.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from kubeskew.apimachinery.golang import json_syntax
from kubeskew.apimachinery.golang.fnv import fnv1a

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
    """Names of members become lower case, because Go finds them in any case.

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
    """`field` names the struct and its field, as in `Checkpoint.entries`."""
    text = f"json: cannot unmarshal {kind_of(value)} into Go struct field {field} of type {go_type}"
    return CheckpointError(text)


def text_of(members: Mapping[str, Any], name: str, struct: str, default: str = "") -> str:
    """An absent member is the default, which the struct had before.

    Raises CheckpointError for a value that is no string.
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
    """An absent member is the default. Raises CheckpointError for a value that is no checksum."""
    value = members.get(name.lower())
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise unfit(value, f"{struct}.{name}", go_type)
    return value


def mapping_of(members: Mapping[str, Any], name: str, struct: str, go_type: str) -> dict[str, Any] | None:
    """None stands for null, which is Go's nil, while an absent member is empty.

    Raises CheckpointError for a value that is no object.
    """
    value = members.get(name.lower(), {})
    if value is not None and not isinstance(value, dict):
        raise unfit(value, f"{struct}.{name}", go_type)
    return value


class SpewText(NamedTuple):
    """A value as spew prints it: with its type before it if it is a struct's field or stands alone."""

    go_type: str
    text: str

    def __str__(self) -> str:
        return f"({self.go_type}){self.text}"


def string(value: str) -> SpewText:
    return SpewText("string", value)


def items(go_type: str, values: Iterable[Any] | None) -> SpewText:
    """Prints a slice; elements are printed values, or plain strings and numbers. None is Go's nil."""
    if values is None:
        return SpewText(go_type, "<nil>")
    return SpewText(go_type, f"[{' '.join(map(_bare, values))}]")


def mapping(go_type: str, values: Mapping[Any, Any] | None) -> SpewText:
    """Prints a map, of strings or numbers to printed values, or to plain strings and numbers. None is Go's
    nil."""
    if values is None:
        return SpewText(go_type, "<nil>")
    return SpewText(go_type, f"map[{' '.join(f'{key}:{_bare(values[key])}' for key in sorted(values))}]")


def struct(go_type: str, fields: Mapping[str, SpewText]) -> SpewText:
    return SpewText(go_type, "{" + " ".join(f"{name}:{value}" for name, value in fields.items()) + "}")


def checksum(value: SpewText) -> int:
    """FNV-1a of 32 bits."""
    return fnv1a(str(value).encode())


def _bare(value: Any) -> str:
    return value.text if isinstance(value, SpewText) else str(value)
