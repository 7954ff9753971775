"""Clients with the types of a release, and what they keep of objects of newer ones."""

import orjson
import pytest
from test_rest_client import Answer, Scripted, collect

from kubeskew.apimachinery.client.refs import CONFIG_MAPS, PODS
from kubeskew.apimachinery.client.rest import APIClient
from kubeskew.apimachinery.golang.known_fields import as_is, decoder, known_fields
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.versions import Version

TEXT = Schema(Kind.STRING)


def struct(**fields):
    return Schema(Kind.OBJECT, fields={name: Field(schema) for name, schema in fields.items()})


INNER = struct(a=TEXT)
OUTER = struct(
    one=INNER,
    many=Schema(Kind.LIST, items=INNER),
    by_name=Schema(Kind.MAP, items=INNER),
    texts=Schema(Kind.LIST, items=TEXT),
    any=Schema(Kind.ANY),
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"one": {"a": "x", "b": "y"}, "c": {}}, {"one": {"a": "x"}}),
        ({"many": [{"a": "x"}, {"b": "y"}]}, {"many": [{"a": "x"}, {}]}),
        ({"by_name": {"n": {"a": "x", "b": "y"}}}, {"by_name": {"n": {"a": "x"}}}),
        ({"b": 1, "c": None}, {}),
        (
            {"any": {"b": 1}, "texts": ["b"], "one": None, "many": [None]},
            {"any": {"b": 1}, "texts": ["b"], "one": None, "many": [None]},
        ),
        ({"one": "no struct", "many": {"b": 1}}, {"one": "no struct", "many": {"b": 1}}),
    ],
)
def test_fields_that_a_struct_lacks_go_at_any_depth(value, expected):
    """Unknown fields go from structs, lists and maps; all else stays, and the argument does not change."""
    before = orjson.dumps(value)
    assert known_fields(value, OUTER) == expected
    assert orjson.dumps(value) == before


def test_an_object_without_unknown_fields_is_not_copied():
    """An object whose fields are all known is returned as it is."""
    value = {"one": {"a": "x"}, "many": [{"a": "x"}], "by_name": {"n": {}}}
    assert known_fields(value, OUTER) is value


def test_recursive_types_are_walked():
    """Schemas in schemas lose what they do not have."""
    schema = struct(a=TEXT)
    assert isinstance(schema.fields, dict)
    schema.fields["inner"] = Field(schema)
    assert known_fields({"inner": {"inner": {"b": 1, "a": "x"}}}, schema) == {"inner": {"inner": {"a": "x"}}}


def pod(**spec):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}, "spec": spec}


NEW = pod(hostname="a", hostnameOverride="b")  # which 1.34 brought


def typed(version, *answers):
    transport = Scripted(*answers)
    return APIClient(transport, decode=decoder(Version.parse(version))), transport.requests


@pytest.mark.asyncio
@pytest.mark.parametrize(("version", "kept"), [("1.33", pod(hostname="a")), ("1.34", NEW)])
async def test_every_answer_is_decoded_by_the_types_of_the_release(version, kept):
    """Gets, lists, writes and watches return what the release knows."""
    unnamed = {key: value for key, value in NEW.items() if key not in {"apiVersion", "kind"}}
    event = orjson.dumps({"type": "ADDED", "object": NEW})
    lists = [{"items": [unnamed]}, {"items": [NEW]}]
    client, requests = typed(version, *map(Answer, [NEW, *lists, NEW, NEW, event]))
    found = await client.get(PODS, "p", "ns")
    assert found == kept
    for _ in lists:
        assert (await client.list(PODS))["items"] == [kept]
    assert await client.update(PODS, found) == kept
    assert orjson.loads(requests[-1].body) == kept
    assert await client.create(PODS, NEW) == kept
    seen = []
    await collect(client.watch(PODS), seen)
    assert seen == [("ADDED", kept)]


@pytest.mark.asyncio
async def test_kinds_without_types_and_clients_without_types_keep_all():
    """Custom resources, answers without a kind and dynamic clients are as the server sent them."""
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "new": 1}
    client, _ = typed("1.33", Answer(widget), Answer({}), Answer({"new": 1}))
    assert [await client.get(CONFIG_MAPS, "x", "ns") for _ in range(3)] == [widget, {}, {"new": 1}]
    assert as_is(NEW) is NEW
    assert await APIClient(Scripted(Answer(NEW))).get(PODS, "p", "ns") == NEW
