"""Checks values of files of our own by the JSON Schemas that editors have of them.

It has the keywords that tables of keys use, and `errorMessage`, which editors know, too: the text of an error
in place of one that is made from the type. Left to the readers of values, which have the names that there are
and say more, are `propertyNames`, a `not` that is no constant, patterns without an `errorMessage`, and `$ref`
to schemas that the caller does not give.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubeskew.apimachinery.known_names import did_you_mean

Schema = Mapping[str, Any]
_ABSENT: Any = object()
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, Mapping),
    "array": lambda value: isinstance(value, list | tuple),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "null": lambda value: value is None,
}
_WORDS = {
    "object": "a mapping",
    "array": "a list",
    "string": "a text",
    "boolean": "true or false",
    "integer": "a number",
    "number": "a number",
}


class SchemaError(ValueError):
    """`path` is that of the value, `key` the one that is unknown there."""

    def __init__(self, path: str, text: str, key: str = "") -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.key = key


def check(
    value: Any,
    schema: Schema,
    references: Mapping[str, Schema],
    path: str = "",
    skip: Callable[[Any], bool] | None = None,
) -> None:
    """Raises SchemaError.

    `references` are schemas by their `$ref`; others are not followed. Values that `skip` takes are left out.
    """
    if skip is not None and skip(value):
        return
    schema = references.get(schema["$ref"], {}) if "$ref" in schema else schema
    if not _fits(value, schema):
        raise SchemaError(path, f"{expected(schema)}, found {_found(value)}{_hint(value, schema)}")
    if isinstance(value, Mapping):
        _check_keys(value, schema, path)
    for below, member, of_member in _members(value, schema):
        check(member, of_member, references, f"{path}{below}".removeprefix("."), skip)


def expected(schema: Schema) -> str:
    """Says for people which values fit."""
    if "errorMessage" in schema:
        return str(schema["errorMessage"])
    if "enum" in schema:
        return f"expected {' or '.join(str(each) for each in schema['enum'] if each is not None)}"
    if "minimum" in schema and "maximum" in schema:
        return f"expected a number from {schema['minimum']} to {schema['maximum']}"
    words = dict.fromkeys(_WORDS[kind] for kind in _kinds(schema) if kind != "null")
    return f"expected {' or '.join(words)}"


def _kinds(schema: Schema) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else kinds


def _fits(value: Any, schema: Schema) -> bool:
    kinds = _kinds(schema)
    if kinds and not any(_TYPES[kind](value) for kind in kinds):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if isinstance(value, str):
        pattern = schema.get("pattern", "") if "errorMessage" in schema else ""
        return len(value) >= schema.get("minLength", 0) and _matches(pattern, value)
    if _TYPES["number"](value):
        if value < schema.get("minimum", value) or value > schema.get("maximum", value):
            return False
        return bool(value != schema.get("not", {}).get("const", _ABSENT))
    return True


def _matches(pattern: str, text: str) -> bool:
    """`$` is the end of the text, as in ECMA-262, not also the place before a last line break."""
    return re.search(re.sub(r"(?<!\\)\$$", r"\\Z", pattern), text) is not None


def _check_keys(value: Mapping[str, Any], schema: Schema, path: str) -> None:
    known = schema.get("properties", {})
    if schema.get("additionalProperties") is False:
        for key in value:
            if key not in known:
                hint = did_you_mean(str(key), known)
                text = f"unknown key {key!r}; known are {', '.join(sorted(known))}{hint}"
                raise SchemaError(path, text, str(key))
    for key in schema.get("required", ()):
        if key not in value:
            said = known.get(key, {}).get("errorMessage", "").removeprefix("expected")
            raise SchemaError(path, f"expected `{key}`{said and f':{said}'}")


def _members(value: Any, schema: Schema) -> Iterator[tuple[str, Any, Schema]]:
    """Yields what is below a value: the end of its path, itself, and its schema."""
    if isinstance(value, Mapping):
        known, others = schema.get("properties", {}), schema.get("additionalProperties") or {}
        for key, member in value.items():
            yield f".{key}", member, known.get(key, others)
    elif isinstance(value, list | tuple):
        for index, member in enumerate(value):
            yield f"[{index}]", member, schema.get("items", {})


def _found(value: Any) -> str:
    return type(value).__name__ if isinstance(value, Mapping | list | tuple) else repr(value)


def _hint(value: Any, schema: Schema) -> str:
    if "enum" in schema:
        return did_you_mean(str(value), [each for each in schema["enum"] if each is not None])
    scalar = value is not None and not isinstance(value, Mapping | list | tuple | str)
    is_text = "string" in _kinds(schema) and "errorMessage" not in schema
    return "; write it in quotes" if scalar and is_text else ""
