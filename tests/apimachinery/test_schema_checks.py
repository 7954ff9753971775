"""Values are checked by the JSON Schemas of tables of keys."""

from collections.abc import Mapping
from typing import Any

import pytest

from kubeskew.apimachinery.schema_checks import SchemaError, check

NUMBER = {"type": "integer", "minimum": 1, "maximum": 3}
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "count": NUMBER,
        "mode": {"enum": ["fast", "slow", None]},
        "names": {"type": ["array", "null"], "items": {"type": "string"}},
        "delay": {"type": "string", "pattern": "^[0-9]+s$", "errorMessage": "expected seconds"},
        "free": {"type": "string", "pattern": "^a"},
        "switches": {"$ref": "#/$defs/switches"},
        "other": {"$ref": "#/$defs/other"},
        "anything": {},
    },
    "additionalProperties": False,
    "required": ["count"],
}
REFERENCES = {"#/$defs/switches": {"type": "object", "additionalProperties": {"type": "boolean"}}}


@pytest.mark.parametrize(
    "more",
    [
        {"mode": None, "names": None},
        {"names": ["a", "b"], "delay": "3s"},
        {"free": "b", "other": 4},
        {"switches": {"a": True}},
        {"anything": float("nan")},
    ],
)
def test_values_that_fit(more: Mapping[str, Any]):
    """Null fits where the schema has it, and what is left to readers is not checked."""
    check({"count": 2, **more}, SCHEMA, REFERENCES)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "expected a mapping, found list"),
        ({}, "expected `count`"),
        ({"count": 4}, "count: expected a number from 1 to 3, found 4"),
        ({"count": True}, "count: expected a number from 1 to 3, found True"),
        ({"count": 1, "cuont": 1}, "unknown key 'cuont'; known are "),
        ({"count": 1, "mode": "fats"}, "mode: expected fast or slow, found 'fats'; did you mean fast?"),
        ({"count": 1, "names": ["a", 2]}, "names[1]: expected a text, found 2; write it in quotes"),
        ({"count": 1, "delay": "3"}, "delay: expected seconds, found '3'"),
        ({"count": 1, "delay": "3s\n"}, "delay: expected seconds, found '3s\\n'"),
        ({"count": 1, "switches": {"a.b": 1}}, "switches.a.b: expected true or false, found 1"),
    ],
)
def test_values_that_do_not_fit(value: Any, message: str):
    """The error has the path, what was expected and what is there."""
    with pytest.raises(SchemaError) as caught:
        check(value, SCHEMA, REFERENCES)
    assert str(caught.value).startswith(message)


def test_values_may_be_left_out():
    """Expressions stand for any value, at any depth."""
    check({"count": "(n)", "names": ["(n)", "a"]}, SCHEMA, {}, skip=lambda value: value == "(n)")
