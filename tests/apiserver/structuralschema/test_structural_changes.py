"""Changes of custom resources: what an old object may keep, what pruning and defaults do to it."""

import copy
from typing import Any

import pytest

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.structuralschema import (
    CoercionError,
    Structural,
    coerce,
    default,
    prune,
    validate_status_update,
    validate_update,
)

KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["k"],
    "items": {
        "type": "object",
        "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 5}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "maximum": 5},
                "keyed": KEYED,
                "plain": {"type": "array", "items": {"type": "integer", "maximum": 5}},
                "set": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "integer"},
                },
            },
        },
        "status": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}},
    },
}


def errors(old: Any, new: Any, minor: int = 36) -> list[str]:
    rules = Features.of(FeatureGates(Version(minor))).schemas
    found = validate_update({"spec": new}, {"spec": old}, Structural.of(SCHEMA, rules))
    return [error.path for error in found]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ({"n": 9}, {"n": 9}, []),
        ({"n": 9}, {"n": 8}, ["spec.n"]),
        ({"n": 9}, {"n": 9, "plain": []}, []),
        ({"keyed": [{"k": "a", "v": 9}, {"k": "b"}]}, {"keyed": [{"k": "b"}, {"k": "a", "v": 9}]}, []),
        ({"keyed": [{"k": "a", "v": 9}]}, {"keyed": [{"k": "b", "v": 9}]}, ["spec.keyed[0].v"]),
        ({"plain": [9, 1]}, {"plain": [9, 1]}, []),
        ({"plain": [9, 1]}, {"plain": [9, 2]}, ["spec.plain[0]"]),
        ({"set": [1, 1]}, {"set": [2, 2]}, []),
        ({"set": [1]}, {"set": [2, 2]}, ["spec.set[1]"]),
    ],
)
def test_what_did_not_change_is_not_held_against_an_object(old: Any, new: Any, said: list[str]):
    """Ratcheting goes by fields and keys; items of other lists only all at once."""
    assert errors(old, new) == said


def test_older_releases_do_not_ratchet():
    """The gate is off before 1.30."""
    assert errors({"n": 9}, {"n": 9}, minor=29) == ["spec.n"]


def test_of_a_status_update_only_the_status_counts():
    """The rest of the object was not sent; messages name the place inside of the status."""
    new, old = {"spec": {"n": 9}, "status": {"n": 8}}, {"spec": {"n": 9}}
    found = validate_status_update(new, old, Structural.of(SCHEMA))
    assert [str(error) for error in found] == [
        "status.n: Invalid value: 8: n in body should be less than or equal to 5"
    ]


PRUNED: list[tuple[dict[str, Any], Any, Any, list[str]]] = [
    (
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"a": "x", "b": {"c": 1}},
        {"a": "x"},
        ["x.b"],
    ),
    ({"type": "object", "additionalProperties": True}, {"a": {"b": 1}}, {"a": {}}, ["x.a.b"]),
    ({"type": "object", "additionalProperties": {"type": "object"}}, {"a": {"b": 1}}, {"a": {}}, ["x.a.b"]),
    ({"type": "array", "items": {"type": "object"}}, [{"a": 1}, 2], [{}, 2], ["x[0].a"]),
    (
        {
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"a": {"type": "object"}},
        },
        {"a": {"gone": 1}, "b": {"kept": 1}},
        {"a": {}, "b": {"kept": 1}},
        ["x.a.gone"],
    ),
    (
        {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "properties": {"spec": {"type": "object"}},
        },
        {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "data": {}},
        {"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}},
        ["x.data"],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "string", "nullable": True}},
        },
        {"a": None, "b": None},
        {"b": None},
        [],
    ),
]


@pytest.mark.parametrize(("schema", "value", "kept", "unknown"), PRUNED)
def test_pruning(schema: dict[str, Any], value: Any, kept: Any, unknown: list[str]):
    """Unknown fields go and are reported; nulls without default go silently."""
    obj = {"apiVersion": "g/v1", "kind": "K", "metadata": {"anything": 1}, "x": copy.deepcopy(value)}
    root = Structural.of({"type": "object", "properties": {"x": schema}})
    assert prune(obj, root) == unknown
    assert obj == {"apiVersion": "g/v1", "kind": "K", "metadata": {"anything": 1}, "x": kept}


def test_defaults_fill_in_and_replace_nulls():
    """A default makes room for those below it; a null that is not allowed gives way."""
    inner = {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 1}}}
    schema = {
        "type": "object",
        "properties": {
            "a": inner,
            "n": {"type": "string", "default": "x"},
            "nullable": {"type": "string", "nullable": True, "default": "x"},
            "list": {"type": "array", "items": inner},
            "map": {"type": "object", "additionalProperties": inner},
        },
    }
    obj: dict[str, Any] = {"n": None, "nullable": None, "list": [{}, None], "map": {"k": {}}}
    default(obj, Structural.of(schema))
    assert obj == {
        "a": {"b": 1},
        "n": "x",
        "nullable": None,
        "list": [{"b": 1}, {"b": 1}],
        "map": {"k": {"b": 1}},
    }


def test_embedded_metadata_is_made_fit():
    """Unknown metadata goes and is reported; what does not fit is refused, or dropped from stored objects."""
    schema = Structural.of(
        {
            "type": "object",
            "properties": {"x": {"type": "object", "x-kubernetes-embedded-resource": True}},
        }
    )
    obj: dict[str, Any] = {"x": {"metadata": {"name": "a", "bogus": 1, "labels": None}}}
    assert coerce(obj, schema) == ["x.metadata.bogus"]
    assert obj["x"]["metadata"]["name"] == "a"
    assert "bogus" not in obj["x"]["metadata"]
    broken = {"x": {"metadata": {"name": "a", "labels": {"a": 1}}}}
    with pytest.raises(CoercionError, match=r"x\.metadata: Invalid value"):
        coerce(copy.deepcopy(broken), schema)
    coerce(broken, schema, drop_invalid=True)
    assert "labels" not in broken["x"]["metadata"]
