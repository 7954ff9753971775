"""Holds the protobuf field numbers of the built-in types: facts, the same in every release.

`numbers.json` (made by `hack/protobuf_numbers.py`): {definition name: {JSON name: number}}. A key
`=definition name` is an embedded message: in JSON, its fields are those of the struct around it. Preview
releases bring numbers of their own, which are guesses.
"""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

import orjson

from kubeskew.apimachinery.catalogue.data import copied_definitions, preview_numbers
from kubeskew.apimachinery.schema import Kind, Schema

_DATA = Path(__file__).with_name("numbers.json")
_EMBEDDED = "="
_TYPE_META: Final = {
    "apiVersion",
    "kind",
}  # stand in the envelope; of an object inside another Go loses them too
_KEPT: Final = 1024


@cache
def load() -> Mapping[str, Mapping[str, int]]:
    """Returns the whole table; read once per process."""
    table: dict[str, dict[str, int]] = orjson.loads(_DATA.read_bytes())
    for new, old in copied_definitions().items():
        for name in [name for name in table if name.startswith(old)]:
            numbers = {key.replace(old, new): number for key, number in table[name].items()}
            table[new + name.removeprefix(old)] = numbers
    for name, numbers in preview_numbers().items():
        table[name] = table.get(name, {}) | numbers
    return table


@lru_cache(maxsize=_KEPT)
def is_known(schema: Schema) -> bool:
    """Decides whether objects of a struct type can be read without losing a field; not those of custom
    resources.
    """
    return schema.kind is Kind.OBJECT and not any(True for _ in unnumbered(schema))


def unnumbered(schema: Schema) -> Iterator[str]:
    """Yield the fields that have no number, as `definition.field`, in the type and in all that it holds."""
    todo, seen = [schema], {schema}
    while todo:
        current = todo.pop()
        if current.kind is Kind.OBJECT and current.fields:
            missing = current.fields.keys() - numbered(current.name)
            missing = missing - _TYPE_META if missing >= _TYPE_META else missing
            yield from (f"{current.name}.{field}" for field in sorted(missing))
        inner = [field.schema for field in current.fields.values()]
        for other in [*inner, *([current.items] if current.items is not None else [])]:
            if other not in seen:
                seen.add(other)
                todo.append(other)


def numbered(name: str) -> set[str]:
    """Returns the JSON names of the fields of a type that have a number, in embedded messages too."""
    return set(fields_of(name).values()).union(*map(numbered, embedded_in(name).values()))


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
