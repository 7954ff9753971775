"""Reads depend on the log alone, not on what a server remembers of its own writes."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from itertools import count
from typing import Any

from custom_definitions import DEFINITIONS, define, path, thing
from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples
from server_in_process import Answer, Caller, close_server, open_server

from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.server import APIServer
from kubeskew.apiserver.storage.store import CachedStore

VERSIONS = ("v1", "v2", "v3")
FIELDS = ("a", "b", "c")
VALUES = st.sampled_from(["x", "y", None])
SPECS = st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3)
# By version: the fields that it has, and their defaults.
SCHEMAS = st.tuples(
    *[st.dictionaries(st.sampled_from(FIELDS), st.sampled_from(["", "d", "e"]), min_size=1)] * 3
)
CHANGES = st.tuples(SCHEMAS, st.sampled_from(VERSIONS))
WRITES = st.tuples(
    st.sampled_from(["create", "create", "put", "merge", "apply", "none", "delete"]),
    st.sampled_from(VERSIONS),
    st.sampled_from("pq"),
    SPECS,
)
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "o"}
CONTAINER = {"name": "c", "image": "i"}
OPAQUE = {"driver": "d.example.com", "parameters": {"z": 1.5, "a": "<"}}
DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}], "config": [{"opaque": OPAQUE}]}
_plurals = count(1)


def versions(schemas: Sequence[dict[str, str]], storage: str) -> list[dict[str, Any]]:
    """Returns the versions of a definition; a field's default is left out where it is empty."""
    found = []
    for name, fields in zip(VERSIONS, schemas, strict=True):
        properties = {
            field: {"type": "string", **({"default": default} if default else {})}
            for field, default in fields.items()
        }
        spec = {"type": "object", "default": {}, "properties": properties}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        found.append({"name": name, "served": True, "storage": name == storage, "schema": schema})
    return found


async def restarted(server: APIServer) -> APIServer:
    """Returns a server that knows nothing but the log of another, which it writes nothing to."""
    services = server.services
    store = await CachedStore.open(services.log, services.environment.clock)
    return APIServer(
        ServerOptions(storage_url=server.options.storage_url), services.environment, store, services.log
    )


async def write(api: Caller, plural: str, step: tuple[str, str, str, dict[str, Any]]) -> Answer:
    """Does one write, which may be refused."""
    verb, served, name, spec = step
    target = f"{path(plural, served)}/{name}"
    body = thing(name, served, plural.capitalize()[:-1], **spec)
    if verb == "create":
        return await api.post(path(plural, served), body)
    if verb == "put":
        live = await api.get(target)
        return await api.put(target, {**live.body, "spec": spec} if live.status == 200 else body)
    if verb == "delete":
        return await api.delete(target)
    if verb == "apply":
        return await api.patch(f"{target}?fieldManager=me&force=true", body, "apply")
    return await api.patch(target, {"spec": spec} if verb == "merge" else {})


async def events(api: Caller, target: str, number: int) -> list[Any]:
    """Returns so many events of a watch."""
    found: list[Any] = []
    if not number:
        return found
    async with asyncio.timeout(30), aclosing(api.watch(target)) as watched:
        async for event in watched:
            found.append(event)
            if len(found) == number:
                return found
    raise AssertionError("the watch has ended")


async def at_one_revision(api: Caller, fresh: Caller, target: str) -> tuple[Any, Any]:
    """Returns both answers to a list, between which nothing was written: a definition's controllers may
    write its status at any time."""
    while True:
        revision = api.server.services.store.revision
        answers = await api.get(target), await fresh.get(target)
        if api.server.services.store.revision == revision:
            return answers


async def check(api: Caller, fresh: Caller, plural: str, since: int) -> None:
    """Compares all reads at all versions: objects, lists now and as they were, and what a watch shows."""
    revision = api.server.services.store.revision
    for served in VERSIONS:
        target = path(plural, served)
        listed, other = await at_one_revision(api, fresh, target)
        assert listed.raw == other.raw
        for item in listed.body["items"]:
            one = f"{target}/{item['metadata']['name']}"
            assert (await api.get(one)).raw == (await fresh.get(one)).raw
        for then in range(since, revision + 1):
            exact = f"{target}?resourceVersionMatch=Exact&resourceVersion={then}"
            before, after = await api.get(exact), await fresh.get(exact)
            assert (before.status, before.raw) == (after.status, after.raw)
        beginning = f"{target}?watch=1&resourceVersion=0"
        first = len(listed.body["items"])
        assert await events(api, beginning, first) == await events(fresh, beginning, first)


@settings(max_examples=examples(12))
@given(CHANGES, st.lists(st.one_of(WRITES, WRITES, WRITES, CHANGES), min_size=1, max_size=8))
def test_custom_resources_read_the_same(first: Any, steps: list[Any]) -> None:
    """After any write at any version, under any definition, a fresh server reads the same.

    The answer to a write is what a read then gives.
    """

    async def run() -> None:
        server = await open_server()
        api, plural = Caller(server), f"foo{next(_plurals)}s"
        await define(api, plural, *versions(*first))
        since = server.services.store.revision
        for step in steps:
            if len(step) == 4:
                answer = await write(api, plural, step)
                if answer.status in {200, 201} and step[0] != "delete":
                    read = await api.get(f"{path(plural, step[1])}/{step[2]}")
                    assert json.loads(answer.raw) == read.body
                continue
            name = f"{DEFINITIONS}/{plural}.test.example.com"
            live = (await api.get(name)).body
            live["spec"]["versions"] = versions(*step)
            assert (await api.put(name, live)).status == 200
            since = server.services.store.revision
        fresh = await restarted(server)
        try:
            await check(api, Caller(fresh), plural, since)
        finally:
            await fresh.end()
            await close_server(server)

    asyncio.run(run())


async def test_a_version_without_the_default() -> None:
    """An object that is written at one version has the defaults of the stored one there, and no others.

    Source: crdConversionRESTOptionsGetter.
    """
    server = await open_server()
    api = Caller(server)
    schemas: list[dict[str, str]] = [{"a": ""}, {"a": "", "b": "deny"}, {"a": "", "c": "late"}]
    await define(api, "bars", *versions(schemas, "v2"))
    made = await api.post(path("bars", "v1"), thing("d", "v1", "Bar", a="http"))
    found = [(await api.get(f"{path('bars', served)}/d")).body["spec"] for served in VERSIONS]
    again = await api.put(f"{path('bars', 'v1')}/d", made.body)
    await close_server(server)
    assert made.body["spec"] == {"a": "http"}
    assert found == [{"a": "http"}, {"a": "http", "b": "deny"}, {"a": "http"}]
    assert again.body == made.body


async def test_built_in_kinds_read_the_same() -> None:
    """Every list of a server is, byte for byte, that of one which has written none of the objects."""
    server = await open_server()
    api, template = Caller(server), {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
    objects: dict[str, dict[str, Any]] = {
        "/api/v1/namespaces/default/pods": {"spec": template["spec"]},
        "/api/v1/namespaces/default/secrets": {"stringData": {"a": "b"}},
        "/apis/apps/v1/namespaces/default/deployments": {
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        },
        "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers": {
            "spec": {"maxReplicas": 2, "scaleTargetRef": TARGET}
        },
        "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims": {"spec": {"devices": DEVICES}},
        "/apis/apps/v1/namespaces/default/controllerrevisions": {"revision": 1, "data": {"z": 1.5, "a": "<"}},
    }
    for target, body in objects.items():
        made = await api.post(target, {"metadata": {"name": "o"}, **body})
        assert made.status == 201, made.raw
        changed = await api.patch(f"{target}/o", {"metadata": {"annotations": {"a": "b"}}})
        assert changed.status in {200, 422}, changed.raw  # data with spaces never change again
    fresh = await restarted(server)
    try:
        for group, served in api.server.services.table.groups():
            for version in served:
                for resource in api.server.services.table.resources(group, version):
                    if "list" in resource.verbs:
                        prefix = f"/apis/{group}/{version}" if group else f"/api/{version}"
                        target = f"{prefix}/{resource.plural}"
                        before, after = await api.get(target), await Caller(fresh).get(target)
                        assert before.status == 200
                        assert before.raw == after.raw, target
    finally:
        await fresh.end()
        await close_server(server)
