"""The checksums of the kubelet's older checkpoints: FNV-1a of how Go's spew prints the structs.

k8s.io/kubernetes/pkg/kubelet/checkpointmanager/checksum and pkg/util/hash; spew's `%#v` with sorted keys.
A value is put together from `string`, `number`, `items`, `mapping` and `struct`; types are named as Go does.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_FNV_OFFSET, _FNV_PRIME, _MASK = 0x811C9DC5, 0x01000193, 0xFFFFFFFF


class SpewText(NamedTuple):
    """A value as spew prints it: with its type before it if it is a struct's field or stands alone."""

    go_type: str
    text: str

    def __str__(self) -> str:
        return f"({self.go_type}){self.text}"


def string(value: str) -> SpewText:
    return SpewText("string", value)


def items(go_type: str, values: Iterable[Any] | None) -> SpewText:
    """Returns a slice: elements are printed values, or plain strings and numbers. None is Go's nil."""
    if values is None:
        return SpewText(go_type, "<nil>")
    return SpewText(go_type, f"[{' '.join(map(_bare, values))}]")


def mapping(go_type: str, values: Mapping[Any, Any] | None) -> SpewText:
    """Returns a map, of strings or numbers to printed values, or to plain strings and numbers."""
    if values is None:
        return SpewText(go_type, "<nil>")
    return SpewText(go_type, f"map[{' '.join(f'{key}:{_bare(values[key])}' for key in sorted(values))}]")


def struct(go_type: str, fields: Mapping[str, SpewText]) -> SpewText:
    return SpewText(go_type, "{" + " ".join(f"{name}:{value}" for name, value in fields.items()) + "}")


def checksum(value: SpewText) -> int:
    """Returns the checksum, of 32 bits."""
    found = _FNV_OFFSET
    for byte in str(value).encode():
        found = ((found ^ byte) * _FNV_PRIME) & _MASK
    return found


def _bare(value: Any) -> str:
    return value.text if isinstance(value, SpewText) else str(value)
