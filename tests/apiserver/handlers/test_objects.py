"""Create, read, update: what comes back, and what is refused."""

import pytest
from server_in_process import MAPS, config_map


async def test_create_and_get(api):
    """A create gives the object with what the server adds; a get gives the same bytes."""
    created = await api.post(MAPS, config_map("a", data={"k": "v"}))

    assert created.status == 201
    metadata = created.body["metadata"]
    assert metadata["uid"]
    assert metadata["creationTimestamp"]
    assert int(metadata["resourceVersion"]) > 0
    assert metadata["namespace"] == "default"
    assert metadata["managedFields"][0]["manager"] == "tester"
    assert (await api.get(f"{MAPS}/a")).raw == created.raw


async def test_system_metadata_is_the_servers(api):
    """The server sets the uid and the times of a new object and ignores the client's."""
    obj = config_map("a")
    obj["metadata"] |= {
        "uid": "u",
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }

    metadata = (await api.post(MAPS, obj)).body["metadata"]

    assert metadata["uid"] != "u"
    assert metadata["creationTimestamp"] > "2020"
    assert "deletionTimestamp" not in metadata


async def test_create_twice(api):
    """The second create of a name is 409 AlreadyExists."""
    await api.post(MAPS, config_map("a"))
    again = await api.post(MAPS, config_map("a"))

    assert (again.status, again.body["reason"]) == (409, "AlreadyExists")
    assert again.body["message"] == 'configmaps "a" already exists'
    assert again.body["details"] == {"name": "a", "kind": "configmaps"}


async def test_create_with_resource_version(api):
    """A new object must not name a resourceVersion."""
    answer = await api.post(MAPS, config_map("a", resourceVersion="5"))

    assert answer.status == 500
    assert answer.body["message"] == "resourceVersion should not be set on objects to be created"


async def test_generated_names(api):
    """A generateName gets five characters of upstream's alphabet."""
    names = {
        (await api.post(MAPS, {"metadata": {"generateName": "x-"}})).body["metadata"]["name"]
        for _ in range(3)
    }

    assert len(names) == 3
    assert all(len(name) == len("x-") + 5 and name.startswith("x-") for name in names)


async def test_missing_namespace(api):
    """Nothing can be created where there is no namespace."""
    answer = await api.post(MAPS.replace("default", "nowhere"), config_map("a"))

    assert (answer.status, answer.body["message"]) == (404, 'namespaces "nowhere" not found')


async def test_other_namespace(api):
    """Namespace of body and path must agree."""
    obj = config_map("a")
    obj["metadata"]["namespace"] = "other"

    answer = await api.post(MAPS, obj)

    assert answer.status == 400
    assert answer.body["message"] == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


async def test_invalid_name(api):
    """A bad name is a 422 with its cause."""
    answer = await api.post(MAPS, config_map("Bad_Name"))

    assert answer.status == 422
    assert answer.body["details"]["causes"][0]["field"] == "metadata.name"


async def test_dry_run_writes_nothing(api):
    """A dry run answers as if, and nothing is there afterwards."""
    assert (await api.post(f"{MAPS}?dryRun=All", config_map("a"))).status == 201
    assert (await api.get(f"{MAPS}/a")).status == 404

    await api.post(MAPS, config_map("a", data={"k": "v"}))
    before = (await api.get(f"{MAPS}/a")).raw
    changed = await api.put(f"{MAPS}/a?dryRun=All", config_map("a", data={"k": "w"}))
    assert changed.body["data"] == {"k": "w"}
    await api.delete(f"{MAPS}/a?dryRun=All")
    assert (await api.get(f"{MAPS}/a")).raw == before

    assert (await api.post(f"{MAPS}?dryRun=Some", config_map("b"))).status == 422


@pytest.mark.parametrize(
    ("validation", "status", "warnings"),
    [
        ("Strict", 400, []),
        ("Warn", 201, ['299 - "unknown field \\"bogus\\""']),
        ("Ignore", 201, []),
        ("", 201, ['299 - "unknown field \\"bogus\\""']),
    ],
)
async def test_field_validation(api, validation, status, warnings):
    """Unknown fields are refused, warned of or dropped, as fieldValidation says."""
    answer = await api.post(f"{MAPS}?fieldValidation={validation}", config_map("a", bogus=1))

    assert answer.status == status
    assert answer.warnings == warnings
    assert b'"bogus":' not in answer.raw


async def test_update_needs_the_current_version(api):
    """A PUT that names an old resourceVersion is 409; without one it is taken."""
    created = (await api.post(MAPS, config_map("a", data={"k": "1"}))).body
    old = created["metadata"]["resourceVersion"]
    changed = await api.put(f"{MAPS}/a", config_map("a", data={"k": "2"}, resourceVersion=old))
    assert changed.status == 200

    conflict = await api.put(f"{MAPS}/a", config_map("a", data={"k": "3"}, resourceVersion=old))
    assert conflict.status == 409
    assert conflict.body["message"] == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your '
        "changes to the latest version and try again"
    )

    assert (await api.put(f"{MAPS}/a", config_map("a", data={"k": "4"}))).status == 200


async def test_update_of_what_is_the_same(api):
    """An update that changes nothing writes nothing."""
    created = (await api.post(MAPS, config_map("a", data={"k": "v"}))).body

    same = await api.put(f"{MAPS}/a", created)

    assert same.body == created


async def test_update_names_must_agree(api):
    """The name in the body must be that of the path."""
    await api.post(MAPS, config_map("a"))

    other = await api.put(f"{MAPS}/a", config_map("b"))
    assert other.body["message"] == "the name of the object (b) does not match the name on the URL (a)"
    nameless = await api.put(f"{MAPS}/a", {"metadata": {}})
    assert nameless.body["message"] == (
        "the name of the object (a based on URL) was undeterminable: name must be provided"
    )


async def test_update_of_nothing(api):
    """An update of an object that does not exist is answered 404."""
    answer = await api.put(f"{MAPS}/a", config_map("a"))

    assert (answer.status, answer.body["message"]) == (404, 'configmaps "a" not found')


async def test_malformed_bodies(api):
    """A body that is no object of the kind is 400 with upstream's text, never a 500."""
    for body, text in (
        (b"{", "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (b"[]", "cannot unmarshal array"),
        (b'{"data": 5}', "cannot unmarshal number"),
        (b'{"kind":"Pod","apiVersion":"v1"}', "cannot be handled as a ConfigMap"),
        (b'{"kind":"Nope","apiVersion":"x/v1"}', 'no kind "Nope" is registered for version "x/v1"'),
    ):
        answer = await api("POST", MAPS, body)
        assert answer.status == 400, body
        assert text in answer.body["message"]


async def test_body_too_large(api):
    """More than 3 MiB is 413."""
    answer = await api("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))

    assert answer.status == 413
    assert answer.body["message"] == "Request entity too large: limit is 3145728"


async def test_unknown_paths(api):
    """Below a served version a Status, elsewhere plain text."""
    below = await api.get("/api/v1/gizmos")
    assert (below.status, below.body["message"]) == (
        404,
        "the server could not find the requested resource",
    )
    assert (await api.get("/apis/nothing/v1/gizmos")).raw == b"404 page not found\n"
    assert (await api.get("/nothing")).raw == b"404 page not found\n"


async def test_methods(api):
    """A method that a path does not have is 405."""
    for method, path in (("PUT", MAPS), ("POST", f"{MAPS}/a"), ("POST", "/api/v1/configmaps")):
        answer = await api(method, path, config_map("a"))
        assert (answer.status, answer.body["reason"]) == (405, "MethodNotAllowed")


async def test_yaml(api):
    """YAML is taken and given."""
    sent = await api("POST", MAPS, b"metadata:\n  name: a\ndata: {k: v}\n", content_type="application/yaml")
    assert sent.status == 201

    given = await api.get(f"{MAPS}/a", accept="application/yaml")

    assert given.content_type == "application/yaml"
    assert b"\nkind: ConfigMap\n" in given.raw


async def test_media_types(api):
    """Unknown media types are answered 415 or 406, as is protobuf alone, so that clients use JSON."""
    await api.post(MAPS, config_map("a"))
    for accept, status in (
        ("text/html", 406),
        ("application/vnd.kubernetes.protobuf", 406),
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("*/*", 200),
        ("text/html, application/json;q=0.5", 200),
    ):
        assert (await api.get(f"{MAPS}/a", accept=accept)).status == status
    for content_type in ("text/plain", "application/cbor"):
        assert (await api.post(MAPS, config_map("b"), content_type=content_type)).status == 415


async def test_partial_metadata(api):
    """An object or a list can be had as nothing but metadata."""
    await api.post(MAPS, config_map("a", data={"k": "v"}))
    form = "application/json;as={};v=v1;g=meta.k8s.io"

    one = await api.get(f"{MAPS}/a", accept=form.format("PartialObjectMetadata"))
    many = await api.get(MAPS, accept=form.format("PartialObjectMetadataList"))

    assert (one.body["kind"], one.body["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert "data" not in one.body
    assert many.body["kind"] == "PartialObjectMetadataList"
    assert many.body["items"][0]["metadata"]["name"] == "a"
    wrong = await api.get(f"{MAPS}/a", accept=form.format("PartialObjectMetadataList"))
    assert wrong.status == 406
    assert wrong.body["message"] == (
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    )
