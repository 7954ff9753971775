"""Definitions make resources: found at once, renamed and converted."""

import asyncio
import gc
import json
from pathlib import Path
from typing import Any

import pytest
from custom_definitions import (
    DEFINITIONS,
    GROUP,
    applied,
    define,
    definition,
    deleted,
    only,
    path,
    thing,
    until,
    version,
)
from server_in_process import Caller, close_server, open_server
from webhook_server import hook_server

from kubeskew.apimachinery.schema import Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.apiextensions.table import CustomResource

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def ruled(**rule: Any) -> dict[str, Any]:
    """A definition with a rule at a property, an item and a value of a map."""
    rules = {"x-kubernetes-validations": [{"rule": "oldSelf == oldSelf", **rule}]}
    text = {"type": "string", "maxLength": 5}
    item = {"type": "object", "required": ["key"], "properties": {"key": text}, **rules}
    named = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["key"]}
    properties = {
        "one": text | rules,
        "list": {"type": "array", "maxItems": 3, "items": item, **named},
        "map": {"type": "object", "maxProperties": 3, "additionalProperties": text | rules},
    }
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    return definition("foos", version(schema={"openAPIV3Schema": schema}))


async def test_names_are_given_once(api: Caller):
    """Another definition of the group does not get a kind that is taken; without it, it does."""
    await define(api, "foos")
    await api.post(DEFINITIONS, definition("bars", names={"kind": "Foo", "listKind": "Bars"}))

    status = await until(api, "bars", "NamesAccepted", "False")
    assert status["conditions"]["NamesAccepted"]["reason"] == "KindConflict"
    assert status["conditions"]["NamesAccepted"]["message"] == '"Foo" is already in use'
    assert status["conditions"]["Established"]["reason"] == "NotAccepted"
    assert (await api.get(path("bars"))).status == 404

    await asyncio.gather(deleted(api, only("foos")), api.delete(f"{DEFINITIONS}/foos.{GROUP}"))
    assert (await until(api, "bars", "Established"))["acceptedNames"]["kind"] == "Foo"


@pytest.mark.parametrize("release", ["1.27.0", "1.27.1", "1.36"])
async def test_an_apply_in_another_version_than_before(release: str):
    """An apply takes its former fields out, with all metadata, and then converts: not in 1.27.0 (117301)."""
    server = await open_server(Version.parse(release))
    api = Caller(server)
    await define(api, "foos", version(), version("v2", storage=False), version("v3", storage=False))
    mine = thing("mine", size="1")
    mine["metadata"]["labels"] = {"app": "mine"}
    await applied(api, mine)
    alone = await api.patch(
        f"{path('foos', 'v3')}/mine?fieldManager=me", {**mine, "apiVersion": f"{GROUP}/v3"}, "apply"
    )
    assert alone.status == 200  # nothing else is left in between
    await applied(api, mine)
    await api.patch(f"{path('foos', 'v2')}/mine", {"other": {"size": "2"}})
    answer = await api.patch(
        f"{path('foos', 'v2')}/mine?fieldManager=me", {**mine, "apiVersion": f"{GROUP}/v2"}, "apply"
    )
    await close_server(server)

    what = f"conversion for {GROUP}/v2, Kind=Foo returned invalid metadata in object at index 1"
    why = (
        f"failed to convert pruned object at version {GROUP}/v2: {what}: missing metadata in converted object"
    )
    failed = (500, f"failed to prune fields: failed add back owned items: {why}")
    assert (answer.status, answer.body.get("message")) == (failed if release == "1.27.0" else (200, None))


async def test_documents_follow(api: Caller):
    """OpenAPI and discovery report a definition as soon as it is established, and its changes."""
    before = (await api.get("/openapi/v3")).body["paths"]
    await define(api, "foos")
    address = (await api.get("/openapi/v3")).body["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"]
    document = (await api.get(address)).body["components"]["schemas"]
    old = (await api.get("/openapi/v2")).body["definitions"]

    assert f"apis/{GROUP}/v1" not in before
    name = "com.example.test.v1.Foo"
    assert document[name]["properties"]["spec"]["description"] == "What is wanted."
    assert old[name]["properties"]["metadata"]["$ref"].endswith("ObjectMeta")

    change = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/description", "value": "new"}]
    await api.patch(f"{DEFINITIONS}/foos.{GROUP}", change, "json")
    again = (await api.get("/openapi/v3")).body["paths"][f"apis/{GROUP}/v1"]["serverRelativeURL"]
    assert again != address
    assert (await api.get(again)).body["components"]["schemas"][name]["description"] == "new"


async def test_a_default_shows_in_what_is_stored(api: Caller):
    """Objects are read along the definition as it is now; the next write stores what was shown."""
    await define(api, "foos")
    made = await api.post(path("foos"), thing("a", size="1"))
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color"
    added = {"op": "add", "path": where, "value": {"type": "string", "default": "red"}}
    await api.patch(f"{DEFINITIONS}/foos.{GROUP}", [added], "json")

    found = await api.get(f"{path('foos')}/a")
    assert found.body["spec"] == {"size": "1", "color": "red"}
    assert found.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]


async def test_versions_that_differ_by_name(api: Caller):
    """An object is served in every version; what was stored in one that is gone cannot be read."""
    versions = version(), version("v2", storage=False, fields="size color")
    await define(api, "foos", *versions)
    await api.post(path("foos", "v2"), thing("a", "v2", size="1", color="red"))
    first = await api.get(f"{path('foos')}/a")
    assert (first.body["apiVersion"], first.body["spec"]) == (f"{GROUP}/v1", {"size": "1"})

    flips = [{"op": "replace", "path": f"/spec/versions/{at}/storage", "value": at == 1} for at in (0, 1)]
    flipped = await api.patch(f"{DEFINITIONS}/foos.{GROUP}", flips, "json")
    assert flipped.body["status"]["storedVersions"] == ["v1", "v2"]
    forgotten = {"status": {"storedVersions": ["v2"]}}
    await api.patch(f"{DEFINITIONS}/foos.{GROUP}/status", forgotten)
    await api.patch(f"{DEFINITIONS}/foos.{GROUP}", [{"op": "remove", "path": "/spec/versions/0"}], "json")
    lost = await api.get(f"{path('foos', 'v2')}/a")
    assert lost.status == 500
    assert lost.body["message"] == f"request to convert CR from an invalid group/version: {GROUP}/v1"


async def test_an_object_whose_stored_version_is_gone_cannot_be_read(api: Caller):
    """A definition that loses the version of stored objects loses these for readers; those in others stay."""
    await define(api, "foos", version("v1"), version("v2", storage=False))
    assert (await api.post(path("foos"), thing("old"))).status == 201
    stored = {"status": {"storedVersions": ["v2"]}}
    moved = [version("v1", storage=False), version("v2")]
    assert (await api.patch(f"{DEFINITIONS}/foos.{GROUP}", {"spec": {"versions": moved}})).status == 200
    assert (await api.post(path("foos", "v2"), thing("new", "v2"))).status == 201
    assert (await api.patch(f"{DEFINITIONS}/foos.{GROUP}/status", stored)).status == 200
    cut = {"spec": {"versions": [version("v2")]}}
    assert (await api.patch(f"{DEFINITIONS}/foos.{GROUP}", cut)).status == 200
    text = f"request to convert CR from an invalid group/version: {GROUP}/v1"

    assert (await api.get(f"{path('foos', 'v2')}/new")).status == 200
    for target in (f"{path('foos', 'v2')}/old", path("foos", "v2")):
        refused = await api.get(target)
        assert (refused.status, refused.body["message"]) == (500, text)
    seen = [(kind, obj.get("message")) async for kind, obj in api.watch(f"{path('foos', 'v2')}?watch=1")]
    assert seen[-1] == ("ERROR", f"Internal error occurred: {text}")


def _converted(review: dict[str, Any]) -> dict[str, Any]:
    """v1 has `hostPort`, v2 `host` and `port`."""
    wanted = review["request"]["desiredAPIVersion"]
    objects = json.loads(json.dumps(review["request"]["objects"]))
    for obj in objects:
        spec = obj.get("spec") or {}
        if "hostPort" in spec:
            spec["host"], spec["port"] = spec.pop("hostPort").split(":")
        elif spec:
            spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port')}"
        obj["apiVersion"] = wanted
    response = {"uid": review["request"]["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    return {**review, "response": response}


def _with(review: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A review with other things in its response."""
    return {**review, "response": {**review["response"], **more}}


async def test_a_webhook_converts(api: Caller, tmp_path: Path):
    """Reads, lists, selectors and writes go through it; what it refuses is a 500."""
    async with hook_server(tmp_path) as hook:
        hook.answer = _converted
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": hook.config}
        await define(
            api,
            "foos",
            version(fields="hostPort"),
            version("v2", storage=False, fields="host port"),
            conversion={"strategy": "Webhook", "webhook": webhook},
        )
        await api.post(path("foos"), thing("a", hostPort="one:1"))
        made = await api.post(path("foos", "v2"), thing("b", "v2", host="two", port="2"))
        assert made.body["spec"] == {"host": "two", "port": "2"}
        assert (await api.get(f"{path('foos')}/b")).body["spec"] == {"hostPort": "two:2"}
        listed = (await api.get(f"{path('foos', 'v2')}?fieldSelector=metadata.name%3Da")).body["items"]
        assert [one["spec"] for one in listed] == [{"host": "one", "port": "1"}]
        await api.patch(f"{path('foos', 'v2')}/a", {"spec": {"port": "9"}})
        assert (await api.get(f"{path('foos')}/a")).body["spec"] == {"hostPort": "one:9"}

        result = {"status": "Failed", "message": "no way"}
        hook.answer = lambda review: {
            **review,
            "response": {"uid": review["request"]["uid"], "result": result},
        }
        refused = await api.post(path("foos", "v2"), thing("c", "v2", host="x", port="1"))
        assert refused.status == 500
        assert refused.body["message"] == f"conversion webhook for {GROUP}/v2, Kind=Foo failed: no way"
        for odd in ({"result": "x"}, {"convertedObjects": {}}, {"convertedObjects": [None]}):
            hook.answer = lambda review, odd=odd: _with(_converted(review), **odd)
            refused = await api.post(path("foos", "v2"), thing("c", "v2", host="x", port="1"))
            assert refused.status == 500
            assert refused.body["message"].startswith(f"conversion webhook for {GROUP}/v2, Kind=Foo")


async def test_managers_of_versions_that_a_webhook_converts(api: Caller, tmp_path: Path):
    """Conflicts and what nobody applies any more are found in the terms of each manager's version."""
    async with hook_server(tmp_path) as hook:
        hook.answer = _converted
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": hook.config}
        await define(
            api,
            "foos",
            version(fields="hostPort"),
            version("v2", storage=False, fields="host port note"),
            conversion={"strategy": "Webhook", "webhook": webhook},
        )

        async def applied(served: str, manager: str, **spec: str) -> Any:
            where = f"{path('foos', served)}/a?fieldManager={manager}"
            return await api.patch(where, thing("a", served, **spec), "apply")

        labelled = thing("b", hostPort="h:1")
        labelled["metadata"]["labels"] = {"app": "b"}
        for served, spec in (("v1", {"hostPort": "h:1"}), ("v2", {"host": "h", "port": "1"})):
            obj = {**labelled, "apiVersion": f"{GROUP}/{served}", "spec": spec}
            where = f"{path('foos', served)}/b?fieldManager=one"
            assert (await api.patch(where, obj, "apply")).status < 300  # by way of nothing

        await applied("v1", "one", hostPort="h:1")
        other = await applied("v2", "two", host="h", port="2")
        assert (other.status, other.body["message"]) == (
            409,
            'Apply failed with 1 conflict: conflict with "one": .spec.hostPort',
        )
        same = await applied("v2", "two", host="h", port="1")
        assert len(same.body["metadata"]["managedFields"]) == 2
        moved = await applied("v2", "one", host="h")
        assert moved.body["spec"] == {"host": "h", "port": "1"}
        changed = await api.patch(f"{path('foos')}/a?fieldManager=three", {"spec": {"hostPort": "g:1"}})
        owners = {
            entry["manager"]: entry["fieldsV1"]["f:spec"]
            for entry in changed.body["metadata"]["managedFields"]
        }
        assert owners == {"two": {"f:port": {}}, "three": {"f:hostPort": {}}}


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("string", "x", "x"),
        ("string", {"b": 1, "a": [True]}, '{"a":[true],"b":1}'),
        ("integer", 3, 3),
        ("integer", "x", None),
        ("number", 1.5, 1.5),
        ("boolean", True, True),
        ("date", "no date", "<invalid>"),
    ],
)
async def test_columns(api: Caller, kind: str, value: Any, shown: Any):
    """A cell has the value that its path leads to, if that is of the column's type."""
    column = {"name": "Shown", "type": kind, "jsonPath": ".spec.list[?(@.name=='a')].value"}
    one = version(additionalPrinterColumns=[column])
    one["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
    }
    await define(api, "foos", one)
    entries = [{"name": "b", "value": 0}, {"name": "a", "value": value}]
    await api.post(path("foos"), thing("a", list=entries))

    table = (await api.get(path("foos"), accept=TABLE)).body
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Shown"]
    assert table["rows"][0]["cells"] == ["a", shown]


async def test_a_scale_of_a_custom_resource_cannot_be_applied(api: Caller):
    """A custom resource's scale cannot be applied, and an update of the scale owns no fields of it."""
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    one = version(subresources={"scale": scale})
    fields = one["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    fields["replicas"] = {"type": "integer"}
    await define(api, "foos", one)
    await api.post(path("foos"), thing("a"))
    missing = await api.get(f"{path('foos')}/a/scale")
    assert missing.status == 500
    assert "does not exist" in missing.body["message"]

    body: dict[str, Any] = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}}
    body["spec"] = {"replicas": 3}
    applied = await api.patch(f"{path('foos')}/a/scale?fieldManager=me&force=true", body, "apply")
    assert applied.status == 500
    assert applied.body["message"].endswith("to an invalid group/version: autoscaling/v1")


async def test_a_changed_definition_ends_its_watches(api: Caller):
    """Watchers come again, for what the resource is from then on."""
    await define(api, "foos")
    await api.post(path("foos"), thing("a"))
    events = api.watch(f"{path('foos')}?watch=true")
    assert (await anext(events))[0] == "ADDED"

    await api.patch(f"{DEFINITIONS}/foos.{GROUP}", {"spec": {"names": {"shortNames": ["f"]}}})
    async with asyncio.timeout(30):
        assert [event async for event in events] == []


async def test_schemas_of_the_past_are_forgotten(api: Caller):
    """Nothing holds on to what a definition once was, regardless of what was written and read meanwhile."""
    await define(api, "changing")
    target = f"{DEFINITIONS}/changing.{GROUP}"
    for number in range(5):
        spec = definition("changing", version(fields=f"size f{number}"))["spec"]
        assert (await api.patch(target, {"spec": spec})).status == 200
        made = await api.post(path("changing"), thing(f"a{number}", kind="Changin", size="1"))
        assert made.status == 201
        await api.patch(f"{path('changing')}/a0", {"spec": {"size": str(number)}})
    gc.collect()
    found = gc.get_objects()
    resources = [one for one in found if isinstance(one, CustomResource) and one.plural == "changing"]
    schemas = [one for one in found if isinstance(one, Schema) and {"size", "f0"} == one.fields.keys()]

    assert len(resources) <= 2
    assert not schemas


async def test_an_answer_is_what_was_stored(api: Caller):
    """An answer lacks fields that only the written version has: they are not stored. So does a dry run."""
    await define(api, "foos", version(), version("v1beta1", storage=False, fields="size hue"))
    url = path("foos", "v1beta1")

    for query in ("?dryRun=All", ""):
        made = await api.post(url + query, thing("a", "v1beta1", size="1", hue="red"))
        assert made.status == 201
        assert made.body["spec"] == {"size": "1"}
        assert made.body["apiVersion"] == f"{GROUP}/v1beta1"
    changed = thing("a", "v1beta1", size="2", hue="blue")
    changed["metadata"]["resourceVersion"] = made.body["metadata"]["resourceVersion"]
    for query in ("?dryRun=All", ""):
        assert (await api.put(f"{url}/a{query}", changed)).body["spec"] == {"size": "2"}


@pytest.mark.parametrize(
    ("release", "gates", "kept"),
    [
        ("1.29.0", {}, True),
        ("1.29.1", {}, False),
        ("1.29.1", {"CRDValidationRatcheting": True}, True),
        ("1.30", {}, True),
        ("1.30", {"CRDValidationRatcheting": False}, False),
    ],
)
async def test_the_old_self_of_rules_is_optional_with_a_gate(
    release: str, gates: dict[str, bool], kept: bool
):
    """The field is dropped at all depths with the gate off, but by a server with 122343; old ones stay."""
    server = await open_server(Version.parse(release), gates=gates)
    api = Caller(server)
    made = await api.post(DEFINITIONS, ruled(optionalOldSelf=True))
    later = await api.patch(f"{DEFINITIONS}/foos.{GROUP}", {"metadata": {"labels": {"seen": "yes"}}})
    await close_server(server)

    assert [json.dumps(one.body["spec"]).count("optionalOldSelf") for one in (made, later)] == [
        3 * kept,
        3 * kept,
    ]
