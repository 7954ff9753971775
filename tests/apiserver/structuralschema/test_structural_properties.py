"""Properties that hold of any structural schema and any object."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples

from kubeskew.apimachinery.catalogue.types import OBJECT_META, types_of
from kubeskew.apimachinery.versions import DEFAULT_VERSION
from kubeskew.apiserver.structuralschema import (
    CoercionError,
    Structural,
    coerce,
    default,
    openapi,
    prune,
    to_schema,
    validate_definition,
    validate_object,
    validate_update,
)

NAMES = st.sampled_from(["a", "b", "c"])
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=3),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
FLAGS = st.fixed_dictionaries(
    {},
    optional={
        "nullable": st.booleans(),
        "enum": st.lists(SCALARS, min_size=1, max_size=2),
        "minimum": st.integers(-3, 3),
        "maxLength": st.integers(0, 3),
        "default": VALUES,
        "format": st.sampled_from(["date", "int32", "email", "odd"]),
    },
)


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    shape = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, max_size=2, unique=True),
            "x-kubernetes-preserve-unknown-fields": st.just(True),
            "x-kubernetes-embedded-resource": st.just(True),
            "maxProperties": st.integers(0, 3),
            "default": st.dictionaries(NAMES, VALUES, max_size=2),
        },
    )
    maps = st.fixed_dictionaries({"type": st.just("object"), "additionalProperties": inner | st.booleans()})
    lists = st.fixed_dictionaries(
        {"type": st.just("array"), "items": inner},
        optional={
            "x-kubernetes-list-type": st.sampled_from(["set", "map", "atomic"]),
            "x-kubernetes-list-map-keys": st.just(["a"]),
            "maxItems": st.integers(0, 3),
        },
    )
    return shape | maps | lists


SCHEMAS = st.recursive(
    st.builds(
        lambda kind, flags: {**flags, **kind},
        st.sampled_from(
            [
                {"type": "string"},
                {"type": "integer"},
                {"type": "number"},
                {"type": "boolean"},
                {"x-kubernetes-int-or-string": True},
                {"x-kubernetes-preserve-unknown-fields": True},
            ]
        ),
        FLAGS,
    ),
    _objects,
    max_leaves=6,
)
ROOTS = SCHEMAS.map(lambda each: {"type": "object", "properties": {"spec": each}})
OBJECTS = VALUES.map(
    lambda each: {"apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"}, "spec": each}
)


@settings(max_examples=examples(50))
@given(ROOTS, OBJECTS)
def test_pruning_and_defaulting_end(root: dict[str, Any], obj: dict[str, Any]):
    """Doing it again changes nothing, and nothing unknown is left."""
    schema = Structural.of(root)
    prune(obj, schema)
    once = copy.deepcopy(obj)
    assert prune(obj, schema) == []
    assert obj == once
    default(obj, schema)
    once = copy.deepcopy(obj)
    default(obj, schema)
    assert obj == once


@settings(max_examples=examples(50))
@given(ROOTS, OBJECTS, OBJECTS)
def test_any_object_is_judged(root: dict[str, Any], obj: dict[str, Any], old: dict[str, Any]):
    """Validation finds errors, never fails; what did not change at all has none but those always reported."""
    schema = Structural.of(root)
    try:
        coerce(obj, schema)
    except CoercionError:
        return
    validate_object(obj, schema)
    validate_update(obj, old, schema)


@settings(max_examples=examples(50))
@given(ROOTS)
def test_any_schema_is_judged_published_and_bridged(root: dict[str, Any]):
    """A definition of any content gets an answer."""
    validate_definition({"spec": {"versions": [{"schema": {"openAPIV3Schema": root}}]}})
    openapi(root, v2=True)
    openapi(root, v2=False)
    to_schema(Structural.of(root), types_of(DEFAULT_VERSION)[OBJECT_META])
