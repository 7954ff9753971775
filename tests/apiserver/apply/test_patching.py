"""Patches against the recorded answers of upstream, and their laws."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import DATA

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apply.patching.json_patch import apply_json_patch, apply_merge_patch
from kubeskew.apiserver.apply.patching.strategic import apply_strategic
from kubeskew.apiserver.apply.patching.values import PatchError, show
from kubeskew.apiserver.structuralschema.values import equal

CASES = [json.loads(line) for line in (DATA / "patches.jsonl").read_text().splitlines()]
VERSION = Version(36)


def schema_of(api_version, kind):
    catalogue = catalogue_for(VERSION, FeatureGates(VERSION), {})
    group, _, version = api_version.rpartition("/")
    return catalogue.by_kind(group, version, kind).schema


def patched(case):
    original, patch = case["original"], case["patch"]
    if case["type"] == "json":
        return apply_json_patch(original, json.dumps(patch).encode())
    if case["type"] == "merge":
        return apply_merge_patch(original, json.dumps(patch).encode())
    schema = schema_of(original["apiVersion"], case["kind"])
    return apply_strategic(original, json.dumps(patch).encode(), schema)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in CASES])
def test_recorded(case):
    """A patch gives upstream's result or its error, and leaves the original alone."""
    before = json.dumps(case["original"])
    if "error" in case:
        with pytest.raises(PatchError) as raised:
            patched(case)
        assert raised.value.why == case["error"]
    else:
        result = patched(case)
        assert result == case["result"]
        assert equal(result, case["result"])
    assert json.dumps(case["original"]) == before


POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "finalizers": ["f1", "f2"], "labels": {"a": "1"}},
    "spec": {
        "containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        pytest.param(
            {"metadata": {"$deleteFromPrimitiveList/finalizers": ["f1", "fx"]}},
            ["metadata", "finalizers"],
            ["f2"],
            id="delete from primitives",
        ),
        pytest.param(
            {
                "metadata": {
                    "$setElementOrder/finalizers": ["f3", "f2"],
                    "$deleteFromPrimitiveList/finalizers": ["f1"],
                    "finalizers": ["f3"],
                }
            },
            ["metadata", "finalizers"],
            ["f3", "f2"],
            id="primitives in order",
        ),
        pytest.param(
            {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
            ["spec", "containers"],
            [{"name": "b", "image": "b"}, {"name": "a", "image": "a"}],
            id="order alone",
        ),
        pytest.param(
            {"spec": {"initContainers": [{"name": "i", "image": None}, {"$patch": "delete", "name": "z"}]}},
            ["spec", "initContainers"],
            [{"name": "i"}],
            id="new list without nulls and directives",
        ),
        pytest.param(
            {"spec": {"affinity": {"$patch": "replace", "x": 1}}},
            ["spec", "affinity"],
            None,
            id="directive for what is not there",
        ),
        pytest.param(
            {"spec": {"containers": [{"name": "a", "$patch": "delete"}, {"name": "c", "x": None}]}},
            ["spec", "containers"],
            [{"name": "c", "x": None}, {"name": "b", "image": "b"}],
            id="appended elements keep nulls",
        ),
    ],
)
def test_strategic_directives(patch, path, expected):
    """Directives do what upstream's code says, in places that no record shows."""
    value = apply_strategic(POD, patch, schema_of("v1", "Pod"))
    for name in path:
        value = value.get(name)
    assert value == expected


@pytest.mark.parametrize(
    ("patch", "code", "why"),
    [
        ({"spec": {"$retainKeys": "x"}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$retainKeys": ["volumes"], "containers": []}}, 400, "invalid patch format of retainKeys"),
        ({"spec": {"$setElementOrder": []}}, 400, "invalid patch format of setElementOrder list"),
        ({"metadata": {"$deleteFromPrimitiveListx": []}}, 400, "invalid patch format of primitive list"),
        (
            {"spec": {"containers": [{"image": "x"}]}},
            500,
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            {"spec": {"containers": [{"name": "a"}, 1]}},
            500,
            (
                "list element types are not identical: "
                "[[map[image:a name:a] map[image:b name:b]] [map[name:a] 1]]"
            ),
        ),
        (
            {"spec": {"containers": [["x"]]}},
            500,
            "list element types are not identical: [[map[image:a name:a] map[image:b name:b]] [[x]]]",
        ),
        (
            {
                "spec": {
                    "$setElementOrder/containers": [{"name": "a"}, {"name": "b"}],
                    "containers": [{"name": "b"}, {"name": "a"}],
                }
            },
            500,
            (
                "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:"
                "\n[map[name:a] map[name:b]]\n"
            ),
        ),
        (
            {"spec": {"$setElementOrder/containers": "x"}},
            500,
            "expected a []interface {}, but received a string",
        ),
    ],
)
def test_strategic_errors(patch, code, why):
    """A patch that makes no sense gets upstream's code and text."""
    with pytest.raises(PatchError) as raised:
        apply_strategic(POD, patch, schema_of("v1", "Pod"))
    assert (raised.value.code, raised.value.why) == (code, why)


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
        (
            {"op": "replace", "value": 1},
            "replace operation failed to decode path: operation missing path field: missing value",
        ),
        (
            {"op": "test", "path": 5},
            (
                "test operation failed to decode path: "
                "json: cannot unmarshal number into Go value of type string"
            ),
        ),
        (
            {"op": "move", "path": "/x"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            {"op": "add", "path": "/b/x", "value": 1},
            (
                "error in add for path: '/b/x': value was not a proper array index: 'x': "
                'strconv.Atoi: parsing "x": invalid syntax'
            ),
        ),
        (
            {"op": "replace", "path": "/b/7", "value": 1},
            "replace operation does not apply: doc is missing key: /b/7: missing value",
        ),
        (
            {"op": "replace", "path": "", "value": 1},
            "replace operation value must be object or array: %!w(<nil>)",
        ),
        (
            {"op": "move", "from": "/nope", "path": "/x"},
            "error in move for path: 'nope': Unable to remove nonexistent key: nope: missing value",
        ),
        ({"path": "/a"}, "Unexpected kind: unknown"),
    ],
)
def test_json_patch_errors(operation, why):
    """Each operation fails in its own words; the client learns only that it failed."""
    with pytest.raises(PatchError) as raised:
        apply_json_patch({"a": 1, "b": [1, 2]}, [operation])
    assert raised.value.why == why
    assert raised.value.status()["details"] == {}
    assert raised.value.code == 422


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ({"op": "replace", "path": "/new", "value": 1}, {"a": 1, "b": [1, 2], "new": 1}),
        ({"op": "remove", "path": "/b/-1"}, {"a": 1, "b": [1]}),
        ({"op": "add", "path": "/b/-1", "value": 9}, {"a": 1, "b": [1, 2, 9]}),
        ({"op": "copy", "from": "/nope", "path": "/c"}, {"a": 1, "b": [1, 2], "c": None}),
        ({"op": "move", "from": "/b/0", "path": "/a"}, {"a": 1, "b": [2]}),
        ({"op": "add", "path": "/a"}, {"a": None, "b": [1, 2]}),
    ],
)
def test_json_patch_beyond_the_rfc(operation, expected):
    """Operations that the RFC forbids but upstream's JSON patch library allows are carried out."""
    assert apply_json_patch({"a": 1, "b": [1, 2]}, json.dumps([operation]).encode()) == expected


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        ("replace", "replace operation does not apply: doc is missing path: : missing value"),
        ("test", "test operation does not apply: is missing path: : missing value"),
    ],
)
def test_json_patch_of_all(operation, why):
    """A document is replaced and tested as a whole, but not by the library of 1.28.0 (120327)."""
    doc, patch = {"a": 1}, [{"op": operation, "path": "", "value": {"a": 1}}]
    assert apply_json_patch(doc, patch) == doc
    with pytest.raises(PatchError) as raised:
        apply_json_patch(doc, patch, whole=False)
    assert raised.value.why == why
    assert (
        apply_json_patch({"a": [1, 2]}, [{**patch[0], "path": "/a/-2", "value": 1}], whole=False)["a"][0] == 1
    )


def test_undecodable_patches():
    """A patch that is not of its form is the client's mistake."""
    for apply, body, why in [
        (apply_json_patch, b"{", "unexpected end of JSON input"),
        (
            apply_json_patch,
            b'["x"]',
            "json: cannot unmarshal string into Go value of type jsonpatch.Operation",
        ),
        (apply_merge_patch, b"null", "Invalid JSON Patch"),
        (apply_merge_patch, b'"x"', "Invalid JSON Patch"),
        (apply_merge_patch, b"{", "Invalid JSON Patch"),
    ]:
        with pytest.raises(PatchError) as raised:
            apply({"a": 1}, body)
        assert (raised.value.code, raised.value.why) == (400, why)


def test_values_as_go_prints_them():
    """Floats, nesting and key order are those of Go's %v."""
    value = {"b": [1, 1.5, True, None, "x y"], "a": {"c": 1e21, "d": 1e6, "e": 123456.0, "f": 1e-7}}
    assert show(value) == "map[a:map[c:1e+21 d:1e+06 e:123456 f:1e-07] b:[1 1.5 true <nil> x y]]"


scalars = st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2)
# No objects in arrays: where an array takes the place of an object, upstream keeps the nulls in it.
json_values = st.recursive(
    scalars | st.none() | st.lists(scalars, max_size=3),
    lambda inner: st.dictionaries(st.text("abc", max_size=1), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text("abc", max_size=1), json_values, max_size=3)


@given(json_objects, json_objects)
def test_merge_patch_twice(doc, patch):
    """Applying a merge patch twice changes nothing more."""
    once = apply_merge_patch(doc, patch)
    assert equal(apply_merge_patch(once, patch), once)


@given(json_objects)
def test_merge_patch_with_nothing(doc):
    """An empty merge patch changes nothing."""
    assert equal(apply_merge_patch(doc, {}), doc)


names = st.lists(st.sampled_from("abcdef"), unique=True, max_size=5)


@given(names, names)
def test_strategic_list_order(before, patch):
    """Merged lists hold each key once, the patch's in its order, the others in theirs."""
    pod = {"spec": {"containers": [{"name": name, "image": "x"} for name in before]}}
    change = {"spec": {"containers": [{"name": name} for name in patch]}}
    merged = [c["name"] for c in apply_strategic(pod, change, schema_of("v1", "Pod"))["spec"]["containers"]]
    assert sorted(merged) == sorted({*before, *patch})
    assert [name for name in merged if name in patch] == patch
    assert [name for name in merged if name not in patch] == [name for name in before if name not in patch]
