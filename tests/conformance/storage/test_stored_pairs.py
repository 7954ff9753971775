"""Objects of every kind, stored at each minor with all fields, as the others read and write them."""

import random
from functools import cache
from typing import Any

import orjson
import pytest

from kubeskew.apimachinery.catalogue.table import catalogue_for
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import Resource
from kubeskew.apimachinery.schema import Kind, Schema
from kubeskew.apimachinery.versions import NEWEST_MINOR, OLDEST_MINOR, Version
from kubeskew.apiserver.storage.records import Entry, Key
from kubeskew.apiserver.unreadable import UnreadableError
from kubeskew.conformance.storage.audit import LOST, UNREADABLE, UNSERVED, differences, findings
from kubeskew.conformance.storage.servers import Settings, StorageServer

MINORS = [Version(minor) for minor in range(OLDEST_MINOR, NEWEST_MINOR + 1)]
TEXTS = {
    "byte": "YQ==",
    "date-time": "2026-11-01T00:00:00Z",
    "micro-time": "2026-11-01T00:00:00.000000Z",
    "duration": "1m0s",
}
PLAIN: dict[Kind, Any] = {
    Kind.INTEGER: 1,
    Kind.NUMBER: 1.5,
    Kind.BOOLEAN: True,
    Kind.INT_OR_STRING: 1,
    Kind.QUANTITY: "1",
    Kind.ANY: {"x": 1},
}


def full(schema: Schema, within: frozenset[str] = frozenset()) -> Any:
    """A value with every field set, but for those of types that it is within; empty ones are left out."""
    if schema.kind is Kind.OBJECT:
        around = within | {schema.name}
        typed = {"kind", "apiVersion"} if "metadata" in schema.fields else set()  # what defaults say
        named = [] if schema.name in within else [name for name in schema.fields if name not in typed]
        wanted = {name: full(schema.fields[name].schema, around) for name in named}
        return {name: value for name, value in wanted.items() if value not in ({}, [])}
    inner = full(schema.items, within) if schema.items else {}
    if schema.kind is Kind.MAP:
        return {"k": inner} if inner not in ({}, []) else {}
    if schema.kind is Kind.LIST:
        return [inner] if inner not in ({}, []) else []
    if schema.name.rpartition(".")[2].startswith("JSONSchemaPropsOr"):
        return {"type": "string"}
    if schema.kind is Kind.STRING:
        return TEXTS.get(schema.format) or (schema.enum[0] if schema.enum else "text")
    return PLAIN[schema.kind]


def known(value: Any, schema: Schema) -> Any:
    """The part of a value that a schema has fields for."""
    if schema.kind is Kind.OBJECT and isinstance(value, dict) and not schema.preserve_unknown:
        return {
            name: known(each, schema.fields[name].schema)
            for name, each in value.items()
            if name in schema.fields
        }
    if schema.kind is Kind.MAP and isinstance(value, dict) and schema.items:
        return {name: known(each, schema.items) for name, each in value.items()}
    if schema.kind is Kind.LIST and isinstance(value, list) and schema.items:
        return [known(each, schema.items) for each in value]
    return value


@cache
def server(version: Version) -> StorageServer:
    every = {"api/all": True}
    gates = {
        name: True
        for name in ("DynamicResourceAllocation",)
        if (spec := FeatureGates(version).spec(name)) is not None and not spec.locked
    }
    return StorageServer(Settings(FeatureGates(version, gates), every))


@cache
def stored(version: Version) -> list[tuple[Resource, Entry]]:
    """An object of every kind that a release stores, in its storage version."""
    table = catalogue_for(version, FeatureGates(version), {"api/all": True})
    found: dict[str, tuple[Resource, Entry]] = {}
    for group, known_version in table.registered():
        for resource in table.resources(group, known_version):
            if resource.gvk != resource.storage or "list" not in resource.verbs:
                continue
            # What is written of a secret as text is stored as data.
            left_out = {"metadata", "stringData"}
            obj = {name: each for name, each in full(resource.schema).items() if name not in left_out}
            place = {"namespace": "ns"} if resource.namespaced else {}
            head = {"kind": resource.kind, "apiVersion": resource.api_version}
            value = orjson.dumps({**head, "metadata": {"name": "x", "uid": "u", **place}, **obj, **head})
            key = Key(resource.storage_resource, "ns" if resource.namespaced else "", "x")
            revision = version.minor * 10_000 + len(found) + 2
            found[resource.storage_resource] = resource, Entry(key, "u", revision, revision, value)
    return [*found.values()]


def pairs() -> list[tuple[Version, Version]]:
    """Neighbours, and of all other pairs those that a seed draws."""
    near = [(one, other) for one in MINORS for other in MINORS if abs(one.minor - other.minor) <= 1]
    far = [(one, other) for one in MINORS for other in MINORS if abs(one.minor - other.minor) > 1]
    return near + random.Random(1).sample(far, 12)


@pytest.mark.parametrize(("writer", "reader"), pairs(), ids=str)
def test_what_a_release_stores_another_reads_as_far_as_it_knows_it(writer: Version, reader: Version):
    """A version that the reader knows keeps all fields that it has there, and no others."""
    table = catalogue_for(reader, FeatureGates(reader), {"api/all": True})
    for resource, entry in stored(writer):
        same = table.by_kind(*resource.gvk)
        kinds_found = [each.what for each in findings([entry], server(reader))]
        if same is None:
            assert kinds_found == [UNREADABLE if server(reader).keeps(entry) else UNSERVED], entry.key
            with pytest.raises(UnreadableError):
                server(reader).read(entry)
            continue
        obj = orjson.loads(entry.value)
        kept = known(obj, same.schema)
        read = server(reader).read(entry)
        assert [each for each in differences(kept, read) if each.op != "add"] == [], entry.key
        assert (LOST in kinds_found) is (differences(obj, kept) != []), entry.key


@pytest.mark.parametrize("version", MINORS, ids=str)
def test_an_object_survives_the_way_through_a_storage_version_of_its_own(version: Version):
    """A release that writes what an older one has stored loses nothing that it knows itself."""
    for older in MINORS[: MINORS.index(version)]:
        for resource, entry in stored(older):
            target = server(version)
            if catalogue_for(version).by_kind(*resource.gvk) is None:
                continue
            again = entry._replace(value=target.rewritten(entry).value, revision=entry.revision + 5_000)
            rewritten = orjson.loads(again.value)
            assert target.rewritten(again).value == again.value, entry.key
            if rewritten["apiVersion"] == resource.api_version:
                before = known(
                    orjson.loads(entry.value), catalogue_for(version).by_kind(*resource.gvk).schema
                )
                assert [each for each in differences(before, rewritten) if each.op != "add"] == [], entry.key
