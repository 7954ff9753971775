"""Clients negotiate the form of answers: media types, conversions, for people or for programs."""

import json

import pytest
import yaml
from server_in_process import MAPS, Caller, config_map

from kubeskew.apiserver.http.yaml_text import to_yaml

_META = "g=meta.k8s.io;v=v1"
_TABLE = f"application/json;as=Table;{_META}"
_STREAMS = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"


@pytest.fixture
async def maps(api: Caller) -> Caller:
    await api.post(MAPS, config_map("a", data={"k": "v"}))
    return api


KINDS = {
    "": "ConfigMap",
    "application/json;q=0": "ConfigMap",
    "text/html, */*;q=0.1": "ConfigMap",
    "application/json;stream=watch": "ConfigMap",
    "application/json;stream=other": "",
    "application/json;v=v1": "",
    f"application/json;{_META}": "",
    f"application/json;as=;{_META}": "",
    f"application/json;as=Chair;{_META}": "",
    f"application/json;as=Chair;{_META}, application/json": "ConfigMap",
    _TABLE: "Table",
    f"application/json;as=PartialObjectMetadata;{_META}": "PartialObjectMetadata",
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1beta1": "PartialObjectMetadata",
    f"*/*;as=Table;{_META}": "Table",
    "*": "",
    "application/*": "",
    "application": "",
    "application/json/x": "",
    "Application/JSON": "",
    "application/yaml;stream=watch": "",
    "application/json;sv=v2": "",
    "application/json;sv=v1": "ConfigMap",
}


@pytest.mark.parametrize("accept", KINDS)
async def test_kinds_of_answers(maps, accept):
    """The first clause that can be had decides; none is 406."""
    answer = await maps.get(f"{MAPS}/a", accept=accept)
    assert (answer.status, answer.body["kind"]) == (
        (200, KINDS[accept]) if KINDS[accept] else (406, "Status")
    )


BODIES = {
    "": 201,
    "application/json;": 201,
    "Application/JSON ; charset=utf-8": 201,
    'application/json; a="b;\\"c"; d=e': 201,
    "application/json; charset": 415,
    "application/json;;": 415,
    ";": 415,
    "application": 415,
}


@pytest.mark.parametrize("content_type", BODIES)
async def test_types_of_bodies(api, content_type):
    """The type of a body is read as Go reads it; that of a patch must stand there to the letter."""
    made = await api.post(MAPS, config_map("x"), content_type=content_type)
    assert made.status == BODIES[content_type]

    for kind in ("Application/Merge-Patch+JSON", "application/merge-patch+json ; charset=utf-8"):
        assert (await api("PATCH", f"{MAPS}/x", {}, content_type=kind)).status == 415


ROUTES = {
    f"{MAPS}/a": "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    MAPS: f"application/json, application/yaml, application/vnd.kubernetes.protobuf, {_STREAMS}",
    "/api/v1": "application/json, application/yaml, application/vnd.kubernetes.protobuf",
    "/version": "application/json",
    "/openid/v1/jwks": "application/jwk-set+json",
}


@pytest.mark.parametrize("path", ROUTES)
async def test_what_the_router_says_of_media_types(maps, path):
    """A media type that a path cannot produce is refused with a list of the types that it can."""
    answer = await maps.get(path, accept="text/html")

    assert answer.body["message"] == f"406: Not Acceptable\n\nAvailable representations: {ROUTES[path]}"
    assert (answer.body["details"], answer.status) == ({}, 406)


async def test_an_empty_list_of_metadata_has_no_items(maps):
    """The items of an empty PartialObjectMetadataList are null; those of every other empty list are []."""
    metadata = await maps.get(
        f"{MAPS}?labelSelector=none", accept=_TABLE.replace("Table", "PartialObjectMetadataList")
    )

    assert (metadata.status, metadata.body["items"]) == (200, None)
    assert (await maps.get(f"{MAPS}?labelSelector=none")).body["items"] == []


async def test_what_the_router_says_of_patches(maps):
    """A patch of another type is refused by the router too, in its own way if it has no body."""
    sent = await maps("PATCH", f"{MAPS}/a", {}, content_type="application/json")
    assert (sent.status, sent.body["message"]) == (415, "415: Unsupported Media Type")


@pytest.mark.parametrize(
    "accept", ["*/*, application/yaml", "*/*, application/yaml;q=0.5", "*/*;q=0.1, application/yaml"]
)
async def test_wildcards_come_last(maps, accept):
    """A media type that Accept names is preferred to a wildcard, regardless of their qualities."""
    assert (await maps.get(f"{MAPS}/a", accept=accept)).content_type == "application/yaml"


async def test_discovery_has_no_tables(maps):
    """Groups and resources cannot be had as Tables; all of them at once is a form of its own."""
    assert (await maps.get("/apis", accept=_TABLE)).status == 406
    every = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

    answer = await maps.get("/apis", accept=f"application/yaml;{every}, application/json")

    assert answer.content_type == f"application/yaml;{every}"
    assert answer.headers["Cache-Control"] == "public"
    assert yaml.safe_load(answer.raw)["kind"] == "APIGroupDiscoveryList"


async def test_reviews_have_no_tables(api):
    """A review is answered as one, even if a client would like another better; as its metadata it may be."""
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    answer = await api.post(path, body, accept=f"{table},application/json")
    assert (answer.status, answer.body["kind"]) == (201, "SelfSubjectAccessReview")
    assert (await api.post(path, body, accept=table)).status == 406
    partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    assert (await api.post(path, body, accept=partial)).body["kind"] == "PartialObjectMetadata"


INDENTED = [("pretty=true", "x"), ("", "curl/8"), ("", "Wget/1"), ("", "Mozilla/5.0"), ("pretty=1", "curl")]


@pytest.mark.parametrize(("query", "agent"), INDENTED)
async def test_answers_for_people(maps, query, agent):
    """Browsers, curl and whoever asks for it get indented JSON, of errors and lists too."""
    for path in (f"{MAPS}/a", f"{MAPS}/none", MAPS, "/apis"):
        answer = await maps.get(f"{path}?{query}", user_agent=agent)
        assert answer.raw == json.dumps(answer.body, indent=2, ensure_ascii=False).encode()
    plain = await maps.get(f"{MAPS}/a?pretty=false", user_agent=agent)
    assert plain.raw.count(b"\n") == 1


async def test_watches_are_no_yaml(maps):
    """A watch has forms of its own, and says which."""
    answer = await maps.get(f"{MAPS}?watch=true", accept="application/yaml")
    assert answer.status == 406
    why = yaml.safe_load(answer.raw)["message"]
    assert why == f"only the following media types are accepted: {_STREAMS}"


async def test_objects_of_tables(maps):
    """An includeObject other than Metadata, Object, None or empty is refused."""
    answer = await maps.get(f"{MAPS}?includeObject=Bogus", accept=_TABLE)
    why = "must be 'Metadata', 'Object', 'None', or empty"
    assert answer.status == 400
    assert answer.body["message"] == (
        f'Unable to convert to Table as requested: includeObject: Invalid value: "Bogus": {why}'
    )


TEXTS = {
    "x": "x",
    "": '""',
    "y": '"y"',
    "null": '"null"',
    "261": '"261"',
    "1e3": '"1e3"',
    "12:30": '"12:30"',
    "1.2.3": "1.2.3",
    "v1.20": "v1.20",
    "2026-11-21T17:05:26Z": '"2026-11-21T17:05:26Z"',
    "2026-11-21": '"2026-11-21"',
    "a: b": "'a: b'",
    "*a": "'*a'",
    "it's": "it's",
    "a\tb": '"a\\tb"',
    "a\nb\n": "|\n  a\n  b",
    "a\nb": "|-\n  a\n  b",
    "word " * 20: "'word word word word word word word word word word word word word word word word\n"
    "  word word word word '",
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_in_yaml(text):
    """Strings that YAML would read as another type are quoted, and the rest is written as libyaml does."""
    assert to_yaml({"k": text}).decode() == f"k: {TEXTS[text]}\n"


def test_keys_in_yaml():
    """Keys come in goyaml's order: what is no letter first, numbers by value."""
    keys = ["f:b", "a10", "a9", "B", ".", "k:{}", "a"]
    written = to_yaml(dict.fromkeys(keys, 1)).decode().splitlines()
    assert [line.removesuffix(": 1").strip("'") for line in written] == [
        ".", "B", "a", "a9", "a10", "f:b", "k:{}",
    ]  # fmt: skip


def test_values_in_two_places_in_yaml():
    """A value that two keys share is written twice: no anchors."""
    shared = {"x": 1}
    assert to_yaml({"a": shared, "b": [shared]}).decode() == "a:\n  x: 1\nb:\n- x: 1\n"


async def test_hashes_of_openapi_documents(api):
    """The address with the right hash may be kept for a year; an old one leads to it."""
    address = (await api.get("/openapi/v3")).body["paths"]["apis/apps/v1"]["serverRelativeURL"]
    found = await api.get(address)
    assert (found.headers["Cache-Control"], "Expires" in found.headers) == ("public, immutable", True)
    assert found.headers["Etag"].strip('"') == address.partition("hash=")[2]
    moved = await api.get("/openapi/v3/apis/apps/v1?hash=OLD")
    assert (moved.status, moved.headers["Location"]) == (301, address)
    plain = await api.get("/openapi/v3/apis/apps/v1")
    assert plain.headers["Cache-Control"] == "no-cache, private"
    assert (await api.get("/openapi/v3/apis/none/v1")).raw == b""


_PROTO = "application/com.github.proto-openapi.spec"


@pytest.mark.parametrize(
    ("path", "accept", "form"),
    [
        ("v2", "", "application/json"),
        ("v2", "*/*", "application/json"),
        ("v2", f"{_PROTO}.v2@v1.0+protobuf, */*;q=0.5", f"{_PROTO}.v2.v1.0+protobuf"),
        ("v2", f"{_PROTO}.v3@v1.0+protobuf", ""),
        ("v3/apis/apps/v1", "application/json;q=0.1", "application/json"),
        ("v3/apis/apps/v1", f"{_PROTO}.v3@v1.0+protobuf", f"{_PROTO}.v3.v1.0+protobuf"),
        ("v3/apis/apps/v1", f"{_PROTO}.v3.v1.0+protobuf", f"{_PROTO}.v3.v1.0+protobuf"),
        ("v3/apis/apps/v1", "application/yaml", ""),
        ("v3", "application/yaml", "text/plain; charset=utf-8"),
    ],
)
async def test_forms_of_openapi_documents(call, path, accept, form):
    """The best clause decides between JSON and protobuf, which have one ETag; none is a bare 406."""
    answer = await call.get(f"/openapi/{path}", accept=accept)

    assert (answer.status, answer.content_type) == ((200, form) if form else (406, ""))
    if form and path != "v3":
        assert answer.headers["Etag"] == (await call.get(f"/openapi/{path}")).headers["Etag"]


async def test_bodies_before_options(maps):
    """A create looks at the body's type before its options, an update after them."""
    odd = {"content_type": "text/plain"}
    assert (await maps.post(f"{MAPS}?dryRun=x", {}, **odd)).status == 415
    assert (await maps.put(f"{MAPS}/a?dryRun=x", {}, **odd)).status == 422
