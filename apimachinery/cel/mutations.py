"""The results of a MutatingAdmissionPolicy's expressions: `Object{spec: Object.spec{…}}` and `JSONPatch{op:
…}`.

An Object's fields may be anything. Its nested types must be named after their fields, which is checked when
it is made.

Source: k8s.io/apiserver/pkg/cel/mutation (typeresolver.go, jsonpatch.go, dynamic/objects.go), 1.36.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.cel import types
from kubeskew.apimachinery.cel.types import Type

ROOT = "Object"


class AnyFields(Mapping[str, Type]):
    """A field map that has every name, with any type."""

    def __getitem__(self, name: str) -> Type:
        return types.DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


def _object(name: str) -> Type:
    return Type("struct", name, (), AnyFields())


JSON_PATCH_TYPE = types.object_type(
    "JSONPatch", {"op": types.STRING, "path": types.STRING, "from": types.STRING, "value": types.DYN}
)

TYPES: Mapping[str, Type] = {ROOT: _object(ROOT), "JSONPatch": JSON_PATCH_TYPE}


def nested(name: str, known: Mapping[str, Type]) -> Type | None:
    """`Object.spec.template`, for example, is a type where expressions know `Object`."""
    return _object(name) if name.startswith(f"{ROOT}.") and ROOT in known else None


def name_errors(value: Any) -> list[str]:
    """Nested objects must have types that are named after their place; other values have no errors."""
    name = getattr(value, "cel_type_of", None)
    return list(_misnamed(value, name)) if name is not None else []


def _misnamed(value: Any, name: str) -> Iterator[str]:
    own = getattr(value, "cel_type_of", None)
    if own is not None and own != name:
        yield (
            f'unexpected type name "{own}", expected "{name}", which matches field name path from root '
            "Object type"
        )
    if isinstance(value, Mapping):
        for field, item in value.items():
            yield from _misnamed(item, name if own is None else f"{name}.{field}")
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _misnamed(item, name)
