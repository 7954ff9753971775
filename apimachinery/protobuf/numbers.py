"""The protobuf field numbers of the built-in types: facts, the same in every release.

`data/protobuf.json` (made by `hack/protobuf_numbers.py`): {definition name: {JSON name: number}}. A key
`=definition name` is an embedded message: in JSON, its fields are those of the struct around it.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import orjson

from apimachinery.schema import Kind, Schema

_DATA = Path(__file__).parents[1] / "data" / "protobuf.json"
_EMBEDDED = "="


@cache
def load() -> Mapping[str, Mapping[str, int]]:
    """The whole table; read once per process."""
    table: Mapping[str, Mapping[str, int]] = orjson.loads(_DATA.read_bytes())
    return table


def is_known(schema: Schema) -> bool:
    """Whether objects of a struct type can be read; not those of custom resources, and of a few old types."""
    return schema.kind is Kind.OBJECT and (schema.name in load() or not schema.fields)


def fields_of(name: str) -> dict[int, str]:
    """Number → JSON name of the type's own fields."""
    return {number: key for key, number in load().get(name, {}).items() if not key.startswith(_EMBEDDED)}


def embedded_in(name: str) -> dict[int, str]:
    """Number → definition name of the messages embedded in a type."""
    return {
        number: key.removeprefix(_EMBEDDED)
        for key, number in load().get(name, {}).items()
        if key.startswith(_EMBEDDED)
    }
