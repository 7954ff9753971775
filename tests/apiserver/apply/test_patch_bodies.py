"""Patches and applied configurations as bodies: what cannot be read, what is odd, and what comes first."""

from typing import Any

import pytest
from server_in_process import MAPS, PATCHES, Caller, config_map

A = f"{MAPS}/a"
_OPERATION = '{"op":"add","path":"/data","value":{}'


@pytest.fixture
async def maps(api: Caller) -> Caller:
    """The API with one object in it."""
    made = await api.post(MAPS, config_map("a", data={"k": "v"}))
    assert made.status in {201, 409}
    return api


async def send(api: Caller, kind: str, body: bytes, query: str = "", path: str = A) -> Any:
    return await api("PATCH", f"{path}?dryRun=All{query}", body, content_type=PATCHES[kind])


_NO_MAP = "Go value of type map[string]interface {}"
_NO_NUMBER = "json: cannot unmarshal number into Go struct field"
UNREADABLE = [
    ("merge", "[]", f"error decoding patch: json: cannot unmarshal array into {_NO_MAP}"),
    ("merge", "5", f"error decoding patch: json: cannot unmarshal number into {_NO_MAP}"),
    ("merge", "{", "error decoding patch: unexpected end of JSON input"),
    ("merge", "", "error decoding patch: unexpected end of JSON input"),
    ("merge", "null", "Invalid JSON Patch"),
    (
        "json",
        "{}",
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    (
        "json",
        "[1]",
        "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
    ),
    (
        "json",
        '[{"op":5}]',
        f"error decoding patch: {_NO_NUMBER} jsonPatchOp.op of type string",
    ),
    ("json", "[] x", "error decoding patch: invalid character 'x' after top-level value"),
]


@pytest.mark.parametrize(("kind", "body", "why"), UNREADABLE)
async def test_unreadable_patches(maps, kind, body, why):
    """A patch is read strictly before it is applied; what cannot be read is 400."""
    answer = await send(maps, kind, body.encode())
    assert (answer.status, answer.body["message"]) == (400, why)


LENIENT = [
    ("merge", "{", "Invalid JSON Patch"),
    ("json", "{}", "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
]


@pytest.mark.parametrize(("kind", "body", "why"), LENIENT)
async def test_unreadable_patches_without_validation(maps, kind, body, why):
    """Without field validation the patch library has the word."""
    answer = await send(maps, kind, body.encode(), "&fieldValidation=Ignore")
    assert (answer.status, answer.body["message"]) == (400, why)


STRICT = [
    ("merge", '{"data":{"a":"1","a":"2"}}', ['duplicate field "data.a"']),
    ("merge", '{"x":[{"k":1,"k":2}]}', ['duplicate field "x[0].k"', 'unknown field "x"']),
    ("json", f'[{_OPERATION},"foo":1}}]', ['json patch unknown field "[0].foo"']),
    ("json", f'[{_OPERATION},"path":"/data"}}]', ['json patch duplicate field "[0].path"']),
    ("apply", "kind: ConfigMap\nkind: ConfigMap", ['line 2: key "kind" already set in map']),
]


@pytest.mark.parametrize(("kind", "body", "faults"), STRICT)
async def test_odd_fields_of_patches(maps, kind, body, faults):
    """Fields that are unknown or given twice in the patch itself are warned of, or refused."""
    if kind == "apply":
        body = f"{body}\napiVersion: v1\nmetadata: {{name: a}}"
    query = "&fieldManager=m"
    answer = await send(maps, kind, body.encode(), query)
    assert answer.status == 200
    quoted = [text.replace('"', '\\"') for text in faults]
    assert answer.warnings == [f'299 - "{text}"' for text in quoted]
    refused = await send(maps, kind, body.encode(), f"{query}&fieldValidation=Strict")
    if kind == "apply":
        why = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  "
        assert (refused.status, refused.body["message"]) == (400, f"{why}{faults[0]}")
    else:
        assert refused.status == 422
        assert refused.body["message"].endswith(f"strict decoding error: {', '.join(faults)}")


KINDS = [
    (
        '{"kind":"X"}',
        'no kind "X" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
    ),
    ('{"kind":"Pod"}', "converting (v1.Pod) to (core.ConfigMap): unknown conversion"),
    ('{"apiVersion":"a/b/c"}', "unexpected GroupVersion string: a/b/c"),
    (
        '{"kind":5}',
        f"couldn't get version/kind; json parse error: {_NO_NUMBER} .kind of type string",
    ),
]


@pytest.mark.parametrize(("body", "why"), KINDS)
async def test_patches_of_the_kind(maps, body, why):
    """A patch that makes the object another kind makes it unreadable; no kind is the resource's."""
    answer = await send(maps, "merge", body.encode())
    assert answer.status == 422
    assert answer.body["message"].endswith(f": {why}")
    assert (await send(maps, "json", b'[{"op":"remove","path":"/kind"}]')).status == 200


async def test_names_and_namespaces_of_patches(maps):
    """The namespace is looked at before the name; both after the patch was applied."""
    answer = await send(maps, "merge", b'{"metadata":{"name":"b","namespace":"c"}}')
    why = "the namespace of the provided object does not match the namespace sent on the request"
    assert (answer.status, answer.body["message"]) == (400, why)
    answer = await send(maps, "merge", b'{"metadata":{"name":"b"},"data":5}')
    assert answer.status == 422


async def test_what_is_refused_first(maps):
    """The body's type before the answer's, both before the options."""
    answer = await maps("PATCH", f"{A}?dryRun=x", {}, content_type="text/plain", accept="text/html")
    assert answer.status == 415
    answer = await maps("PATCH", f"{A}?dryRun=x", {}, content_type=PATCHES["merge"], accept="text/html")
    assert answer.status == 406


CONFIGURATIONS = [
    ({"apiVersion": "v2", "kind": "ConfigMap"}, 400, "invalid object type: /v2, Kind=ConfigMap"),
    ({"apiVersion": "a/b/c", "kind": "ConfigMap"}, 400, "invalid object type: /, Kind="),
    ({"apiVersion": 5, "kind": "ConfigMap"}, 400, "invalid object type: /, Kind=ConfigMap"),
    ({}, 400, "invalid object type: /, Kind="),
    (
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": 5},
        500,
        "failed to create typed patch object (/; /v1, Kind=ConfigMap): .metadata: expected map, got &{5}",
    ),
]


@pytest.mark.parametrize(("config", "status", "why"), CONFIGURATIONS)
async def test_configurations_of_another_kind(maps, config, status, why):
    """An applied configuration must have the kind and version of its path."""
    answer = await maps.patch(f"{A}?fieldManager=m", config, "apply")
    assert (answer.status, answer.body["message"]) == (status, why)


async def test_applied_names(maps):
    """A configuration may leave the name out only where there is an object to take it from."""
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}}
    assert (await maps.patch(f"{A}?fieldManager=m", config, "apply")).status == 200
    answer = await maps.patch(f"{MAPS}/unnamed?fieldManager=m", config, "apply")
    why = "the name of the object (unnamed based on URL) was undeterminable: name must be provided"
    assert (answer.status, answer.body["message"]) == (400, why)


async def test_uids_of_what_is_written(maps):
    """A uid is immutable for an apply, and keeps it from creating; a PUT to nothing is not found before."""
    uid = "11111111-2222-3333-4444-555555555555"
    body = config_map("a")
    body["metadata"]["uid"] = uid
    answer = await maps.patch(f"{A}?fieldManager=m", body, "apply")
    assert answer.status == 422
    assert answer.body["message"].endswith("field is immutable")
    body["metadata"]["name"] = "none"
    answer = await maps.patch(f"{MAPS}/none?fieldManager=m", body, "apply")
    why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
    assert answer.status == 409
    assert answer.body["message"].endswith(why)
    assert (await maps.put(f"{MAPS}/none", body)).status == 404
