"""Raw fields are bytes: compared, owned and answered as such."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples
from server_in_process import Answer, Caller, close_server, open_server

from kubeskew.apimachinery.catalogue.types import types_of
from kubeskew.apimachinery.golang import raw_extensions
from kubeskew.apimachinery.golang.raw_extensions import RawObject, raw_fields
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.encoding import copied, loads

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
REVISIONS = "/apis/apps/v1/namespaces/default/controllerrevisions"
HEAD = '{"apiVersion":"resource.k8s.io/v1","kind":"%s","metadata":{"name":"%s"},"spec":%s}'
CONFIG = '[{"opaque":{"driver":"d.example.com","parameters":%s}}]'
JSON_LABEL = [{"op": "add", "path": "/metadata/labels", "value": {"j": "b"}}]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a\u2028<&\\" é', max_size=4),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(st.text("ab<", max_size=2), below, max_size=3)
    ),
    max_leaves=6,
)


def claim(name: str, parameters: str) -> bytes:
    """Returns a claim with such parameters, as it is sent."""
    config = CONFIG % parameters
    devices = f'{{"requests":[{{"name":"r","exactly":{{"deviceClassName":"c"}}}}],"config":{config}}}'
    return (HEAD % ("ResourceClaim", name, f'{{"devices":{devices}}}')).encode()


def device_class(name: str, parameters: str) -> bytes:
    """Returns a class with such parameters, as it is sent."""
    return (HEAD % ("DeviceClass", name, f'{{"config":{CONFIG % parameters}}}')).encode()


def parameters(answer: Answer) -> str:
    """Returns the parameters in an answer, as they are written there."""
    found = re.search(rb'"parameters":(.*?)\}\}\]', answer.raw)
    assert found is not None, answer.raw
    return found[1].decode()


@pytest.fixture
async def api() -> AsyncIterator[Caller]:
    """Calls a server of 1.36."""
    server = await open_server()
    yield Caller(server)
    await close_server(server)


@pytest.mark.parametrize(
    ("sent", "answered", "kept"),
    [  # kept: what writes the same bytes again (recorded of 1.36.3)
        ('{"a":1,"z":2}', '{"a":1,"z":2}', "same got merge json strategic apply"),
        ('{"z":1,"a":2}', '{"z":1,"a":2}', "same got merge json"),
        ('{"a": 1}', '{"a":1}', "same"),
        ('{"a":1e2}', '{"a":1e2}', "same got merge json"),
        ('{"a":1,"a":2}', '{"a":1,"a":2}', "same got merge json"),
        ('{"a":"<"}', '{"a":"\\u003c"}', "same"),
    ],
)
async def test_parameters_of_claims_are_bytes(api: Caller, sent: str, answered: str, kept: str) -> None:
    """A claim's parameters never change, not even in how they are written, and each way of writing rewrites
    what it decodes.
    """
    body = claim("a", sent)
    made = await api.post(CLAIMS, body)
    got = await api.get(f"{CLAIMS}/a")
    one = f"{CLAIMS}/a"
    changed = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "a", "labels": {"a": "b"}},
    }
    answers = {
        "same": await api.put(one, body),
        "got": await api.put(one, got.raw),
        "merge": await api.patch(one, {"metadata": {"labels": {"m": "b"}}}),
        "json": await api.patch(one, JSON_LABEL, "json"),
        "strategic": await api.patch(one, {"metadata": {"labels": {"s": "b"}}}, "strategic"),
        "apply": await api.patch(f"{one}?fieldManager=x&force=true", changed, "apply"),
    }
    assert parameters(made) == parameters(got) == parameters(await api.get(CLAIMS)) == answered
    assert " ".join(way for way, answer in answers.items() if answer.status == 200) == kept
    assert {answer.status for answer in answers.values()} <= {200, 422}


async def test_writes_of_status_leave_parameters_alone(api: Caller) -> None:
    """A status is written without changing how the spec is, and an apply of nothing changes nothing."""
    body = claim("a", '{"z": 1, "a": 1.0}')
    await api.post(CLAIMS, body)
    user = {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}}
    same = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}}
    applied = await api.patch(f"{CLAIMS}/a?fieldManager=x", same, "apply")
    await api.patch(f"{CLAIMS}/a/status", user)
    assert applied.status == 200
    assert parameters(await api.get(f"{CLAIMS}/a")) == '{"z":1,"a":1.0}'
    assert (await api.put(f"{CLAIMS}/a", body)).status == 200


async def test_components_carry_the_bytes(api: Caller) -> None:
    """A component writes a claim back as it was written: upstream's speak protobuf."""
    await api.post(CLAIMS, claim("a", '{"a" : "<"}'))
    got = (await api.get(f"{CLAIMS}/a")).body
    got["metadata"]["finalizers"] = ["example.com/x"]
    refused = await api.put(f"{CLAIMS}/a", got, user_agent="kubectl/v1.36.0")
    written = await api.put(f"{CLAIMS}/a", got, user_agent="kube-scheduler/v1.36.0")
    assert (refused.status, written.status) == (422, 200)


async def test_how_patches_write_parameters(api: Caller) -> None:
    """Parameters that a patch sets are written as upstream's libraries write it (recorded of 1.36.3)."""
    one, whole = f"{CLASSES}/k", '{"z":{"y": 1,"b":[2]},"a":1.50}'
    inside = "/spec/config/0/opaque/parameters"
    new = (
        b'{"spec":{"config":[{"opaque":{"driver":"d.example.com","parameters":{"z":1,"b":{"y":1,"d": 2}}}}]}}'
    )
    await api.post(CLASSES, device_class("k", whole))
    steps: list[tuple[Any, str, str]] = [
        ({}, "merge", '{"z":{"y":1,"b":[2]},"a":1.50}'),
        ({}, "strategic", '{"a":1.5,"z":{"b":[2],"y":1}}'),
        ([{"op": "replace", "path": inside, "value": {"q": 1, "b": {"z": 1, "c": 2}}}], "json",
         '{"q":1,"b":{"z":1,"c":2}}'),
        ([{"op": "add", "path": f"{inside}/a", "value": 1}], "json", '{"a":1,"b":{"z":1,"c":2},"q":1}'),
        (new, "merge", '{"b":{"d":2,"y":1},"z":1}'),
    ]  # fmt: skip
    for body, kind, wanted in steps:
        assert parameters(await api.patch(one, body, kind)) == wanted
    before = (await api.get(one)).body["metadata"]
    unchanged = await api.patch(one, new, "strategic")
    assert unchanged.body["metadata"]["resourceVersion"] == before["resourceVersion"]
    assert before["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:config": {}}}
    yaml = device_class("k", '{"z": 1, "a": 2}')
    assert parameters(await api.put(one, yaml, content_type="application/yaml")) == '{"a":2,"z":1}'


async def test_raw_fields_are_owned_as_one(api: Caller) -> None:
    """Nobody owns what is inside a raw field."""
    data = b'{"metadata":{"name":"r"},"revision":1,"data":{"z":{"b":1}}}'
    made = (await api.post(REVISIONS, data)).body
    assert made["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {}, "f:revision": {}}
    other = await api.put(f"{REVISIONS}/r", b'{"metadata":{"name":"r"},"revision":2,"data":{"z":{"b": 1}}}')
    assert other.status == 422
    assert other.body["details"]["causes"][0]["field"] == "data"


@pytest.mark.parametrize(
    ("data", "why"), [("[1]", "data must be a valid JSON object"), ("null", "data is mandatory")]
)
async def test_data_of_revisions_is_an_object(api: Caller, data: str, why: str) -> None:
    """A new revision holds an object (ValidateControllerRevisionCreate)."""
    made = await api.post(REVISIONS, f'{{"metadata":{{"name":"r"}},"data":{data},"revision":1}}'.encode())
    assert made.body["message"] == f'ControllerRevision.apps "r" is invalid: data: Required value: {why}'


@pytest.mark.parametrize("text", [r'{"a":"\ud800"}', r'{"a":"\udc00\ud800"}'])
async def test_bytes_that_no_store_reads_are_not_kept(api: Caller, text: str) -> None:
    """Half of a surrogate pair becomes U+FFFD, and the object can be changed and deleted."""
    one = f"{CLASSES}/half"
    assert (await api.post(CLASSES, device_class("half", text))).status == 201
    changed = await api.patch(one, {"metadata": {"labels": {"a": "b"}}}, "merge")
    assert changed.status == 200
    assert "\ufffd" in parameters(changed)
    assert (await api.delete(one)).status == 200


@pytest.mark.parametrize(("first", "second"), [(2, 1), (1, 2), (0, 1)])
async def test_a_list_that_comes_twice_has_its_last_bytes(api: Caller, first: int, second: int) -> None:
    """Of a repeated key the last value counts, however many items the first has."""
    item = '{"opaque":{"driver":"d.example.com","parameters":%s}}'
    lists = [",".join([item % text] * count) for text, count in (('{"a":1}', first), ('{"b":1.0}', second))]
    body = f'{{"metadata":{{"name":"two"}},"spec":{{"config":[{lists[0]}],"config":[{lists[1]}]}}}}'
    made = await api.post(f"{CLASSES}?fieldValidation=Ignore", body.encode())
    assert made.status == 201, made.body
    assert re.findall(rb'"parameters":([^}]*})', made.raw) == [b'{"b":1.0}'] * second


async def test_white_space_counts_in_the_size_of_parameters(api: Caller) -> None:
    """At most 10 KiB are taken as they are written (validateRawExtension)."""
    made = await api.post(CLASSES, device_class("wide", '{"a":%s1}' % (" " * 20_000)))
    assert made.status == 422


@settings(max_examples=examples(60))
@given(VALUES, st.sampled_from([None, 1]), st.sampled_from([None, (",", ":")]), st.booleans())
def test_bytes_are_found_and_written_again(
    value: Any, indent: int | None, separators: tuple[str, str] | None, ascii_only: bool
) -> None:
    """However an object is written, its raw field keeps just those bytes, through copies too.

    Compact ones are the same JSON.
    """
    text = json.dumps({"a": value}, indent=indent, separators=separators, ensure_ascii=ascii_only)
    schema = types_of(Version(36)).of_kind("apps", "v1", "ControllerRevision")
    assert schema is not None
    fields = raw_fields(schema)
    assert fields is not None
    body = f'{{ "metadata": {{"data": [1, {{}}]}}, "data" : {text} , "revision": 1}}'.encode()
    obj = loads(body)
    fields.keep(obj, body)
    again = copied(obj)
    assert isinstance(again["data"], RawObject)
    assert again["data"].text == text.encode()
    written, tidy = raw_extensions.dumps(again)
    assert text.encode() in written
    changed = fields.make_compact(again)
    assert not (tidy and changed)
    small = again["data"].text
    assert loads(small) == {"a": value}
    assert raw_extensions.compact(small) == small
