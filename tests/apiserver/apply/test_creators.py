"""The creator of an object owns the same by the short way that creates take as by the general one."""

import json

from hypothesis import given
from hypothesis import strategies as st
from widgets import INTEGER, MAP_OF_TEXT, STRING, WIDGET

from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apiserver.apply.managedfields import FieldManager, FieldSet

_MANAGER = FieldManager(lambda version: WIDGET if version == "e/v1" else None)
_TEXT = st.text("ab<", max_size=2)
_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_KEYED = st.lists(
    st.fixed_dictionaries({}, optional={"name": _ANYTHING, "value": _ANYTHING, "protocol": _TEXT}), max_size=3
)
_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "size": _ANYTHING, "tags": st.lists(_TEXT, max_size=3), "items": _KEYED, "ports": _KEYED,
        "steps": _ANYTHING, "labels": st.dictionaries(_TEXT, _ANYTHING, max_size=3), "atom": _ANYTHING,
        "free": _ANYTHING, "unknown": _ANYTHING,
    },
)  # fmt: skip


@given(_SPECS, st.dictionaries(st.sampled_from(["name", "uid", "labels"]), _ANYTHING), st.booleans())
def test_a_creators_entry_is_what_a_comparison_with_nothing_gives(spec, metadata, reset_spec):
    """The short way that creates take and the general one agree on every value, regardless of its shape."""
    obj = {"apiVersion": "e/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
    reset = FieldSet.of_fields([("spec",)]) if reset_spec else FieldSet()
    general = FieldSet.of_fields([("spec",), ("nothing", "below")] if reset_spec else [("nothing", "below")])

    short = _MANAGER.update(None, obj, "m", "", "t", reset=reset)

    assert json.dumps(short) == json.dumps(_MANAGER.update(None, obj, "m", "", "t", reset=general))


_PART = Schema(Kind.OBJECT, fields={"count": Field(INTEGER, omit_empty=False), "text": Field(STRING)})
_GO_SPEC = Schema(
    Kind.OBJECT,
    fields={
        "size": Field(INTEGER, omit_empty=False),
        "limit": Field(INTEGER, pointer=True),
        "part": Field(_PART),
        "other": Field(_PART, pointer=True),
        "whole": Field(Schema(Kind.OBJECT, fields=_PART.fields, map_type="atomic")),
        "items": Field(
            Schema(Kind.LIST, items=_PART, list_type="map", list_keys=("text",)), omit_empty=False
        ),
        "more": Field(Schema(Kind.LIST, items=STRING, list_type="set")),
        "labels": Field(MAP_OF_TEXT, omit_empty=False),
        "since": Field(Schema(Kind.STRING, format="date-time")),
    },
)
_GO_WIDGET = Schema(Kind.OBJECT, fields={**WIDGET.fields, "spec": Field(_GO_SPEC)})
_PARTS = st.fixed_dictionaries({"count": st.integers(0, 1)}, optional={"text": _TEXT})
_GO_SPECS = st.fixed_dictionaries(
    {"size": st.integers(0, 1), "part": _PARTS, "whole": _PARTS},
    optional={
        "limit": st.integers(0, 1), "other": _PARTS, "items": st.none() | st.lists(_PARTS, max_size=2),
        "more": st.lists(_TEXT, max_size=2, unique=True), "since": st.none() | _TEXT,
        "labels": st.none() | st.dictionaries(_TEXT, _TEXT, max_size=2),
    },
)  # fmt: skip


@given(_GO_SPECS)
def test_a_creators_entry_is_what_a_comparison_with_a_blank_object_gives(spec):
    """The short way and the general one agree for types of Go, too."""
    manager = FieldManager(lambda _: _GO_WIDGET, blank=True)
    general = FieldSet.of_fields([("nothing", "below")])
    obj = {"apiVersion": "e/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}

    short = manager.update(None, obj, "m", "", "t", reset=FieldSet())

    assert json.dumps(short) == json.dumps(manager.update(None, obj, "m", "", "t", reset=general))


def test_creators_own_what_structs_hold():
    """Structs and zeros that Go always writes have no owner; a struct behind a pointer is its creator's."""
    spec = {"size": 1, "part": {"count": 0, "text": "x"}, "other": {"count": 0}, "items": [{"text": "a"}]}
    obj = {"apiVersion": "e/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": spec}

    made = FieldManager(lambda _: _GO_WIDGET, blank=True).update(None, obj, "m")

    [entry] = made["metadata"]["managedFields"]
    assert entry["fieldsV1"] == {
        "f:spec": {
            "f:items": {'k:{"text":"a"}': {".": {}, "f:text": {}}},
            "f:other": {".": {}, "f:count": {}},
            "f:part": {"f:text": {}},
            "f:size": {},
        }
    }
