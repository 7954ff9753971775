"""Errors of JSON and merge patches show the patched object with the members in Go's order."""

import json

import pytest

SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = {"type": "Opaque", "metadata": {"name": "a", "labels": {"b": "1", "a": "2"}}, "data": {"x": "aGk="}}
ORDERS = {
    "struct": ["name", "namespace", "uid", "resourceVersion", "creationTimestamp", "labels", "managedFields"],
    "map": ["creationTimestamp", "labels", "managedFields", "name", "namespace", "resourceVersion", "uid"],
}
UNCONVERTED = (
    "failed to convert new object (/b; /v1, Kind=Secret) to proper version: "
    "unable to convert unstructured object to /v1, Kind=Secret: "
)
NO_KIND = (
    "couldn't get version/kind; json parse error: "
    "json: cannot unmarshal object into Go struct field .kind of type string"
)
UNREGISTERED = 'no kind "Other" is registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"'


@pytest.fixture
async def secret(api):
    """A secret's address."""
    assert (await api.post(SECRETS, SECRET)).status == 201
    return f"{SECRETS}/a"


@pytest.mark.parametrize(
    ("kind", "patch", "order", "labels", "why"),
    [
        ("merge", {"data": {"x": "no!"}}, "struct", ["a", "b"], "illegal base64 data at input byte 2"),
        ("merge", {"kind": "Other", "metadata": {"labels": {"0": "3"}}}, "map", ["0", "a", "b"],
         UNREGISTERED),
        ("json", [{"op": "replace", "path": "/kind", "value": "Other"}], "struct", ["a", "b"], UNREGISTERED),
        (
            "json",
            [{"op": "test", "path": "/metadata/name", "value": "a"},
             {"op": "add", "path": "/kind", "value": "Other"}],
            "map",
            ["a", "b"],
            UNREGISTERED,
        ),
        (
            "json",
            [{"op": "move", "path": "/metadata/labels/c", "from": "/metadata/labels/a"},
             {"op": "copy", "path": "/kind", "from": "/metadata"}],
            "map",
            ["b", "c"],
            NO_KIND,
        ),
    ],
)  # fmt: skip
async def test_objects_that_a_patch_reads_are_written_with_sorted_keys(
    api, secret, kind, patch, order, labels, why
):
    """Objects that no operation reads stay in the order of the struct."""
    answer = await api.patch(secret, patch, kind)

    assert answer.status == 422
    text, _, end = (
        answer.body["details"]["causes"][0]["message"].removeprefix("Invalid value: ").rpartition('": ')
    )
    shown = json.loads(json.loads(text + '"'))
    assert end == why or (text + end).endswith(why) or why in answer.body["message"]
    assert list(shown) == sorted(shown)
    assert list(shown["metadata"]) == ORDERS[order]
    assert list(shown["metadata"]["labels"]) == labels


@pytest.mark.parametrize(("validation", "status"), [("Strict", 422), ("Warn", 400), ("Ignore", 400)])
async def test_an_object_without_a_version_has_the_fields_of_the_internal_type(
    api, secret, validation, status
):
    """The type has no JSON names but those of the metadata in it."""
    patch = [{"op": "move", "path": "/metadata", "from": "/type"}, {"op": "remove", "path": "/apiVersion"}]

    answer = await api.patch(f"{secret}?fieldValidation={validation}", patch, "json")

    assert answer.status == status
    unknown = ['unknown field "data"', 'unknown field "metadata"']
    if validation == "Strict":
        assert answer.body["message"].endswith(f"strict decoding error: {', '.join(unknown)}")
    warned = [text.replace("\\", "") for text in answer.warnings]
    assert warned == ([f'299 - "{text}"' for text in unknown] if validation == "Warn" else [])


@pytest.mark.parametrize(
    ("config", "status", "why"),
    [
        (
            {"kind": "Secret", "data": {"x": "no!"}},
            500,
            f"{UNCONVERTED}error decoding from json: illegal base64 data at input byte 2",
        ),
        (  # a number too large for its type wraps, as Go converts it
            {"kind": "Pod", "spec": {"containers": [{"name": "c", "image": "i"}], "priority": 2**32 - 5}},
            403,
            "the integer value of priority (-5) must not be provided in pod spec",
        ),
        (  # the key of a container has a default, though an empty one
            {"kind": "Pod", "spec": {"containers": [{"image": "i"}]}},
            422,
            'Pod "b" is invalid: spec.containers[0].name: Required value',
        ),
    ],
)
async def test_applied_configurations_become_objects_without_json_in_between(api, config, status, why):
    """A merged configuration that does not fit its type is an error of the server's."""
    plural = config["kind"].lower() + "s"
    address = f"/api/v1/namespaces/default/{plural}/b?fieldManager=m"

    answer = await api.patch(address, {"apiVersion": "v1", "metadata": {"name": "b"}, **config}, "apply")

    assert answer.status == status
    assert why in answer.body["message"]
