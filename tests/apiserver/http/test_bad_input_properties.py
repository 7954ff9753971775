"""Random bodies, like the schema and unlike it: every answer is the object or a Status, never a panic."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from randomness import examples
from server_in_process import PATCHES, Answer, Caller, close_server, open_server

from kubeskew.apimachinery.schema import Kind, Schema

RESOURCES = (
    ("", "v1", "configmaps"),
    ("", "v1", "events"),
    ("", "v1", "namespaces"),
    ("", "v1", "nodes"),
    ("", "v1", "pods"),
    ("", "v1", "serviceaccounts"),
    ("", "v1", "services"),
    ("apps", "v1", "deployments"),
    ("apps", "v1", "controllerrevisions"),
    ("autoscaling", "v1", "horizontalpodautoscalers"),
    ("batch", "v1", "jobs"),
    ("events.k8s.io", "v1", "events"),
    ("resource.k8s.io", "v1", "deviceclasses"),
    ("resource.k8s.io", "v1", "resourceclaims"),
    ("resource.k8s.io", "v1", "resourceslices"),
)
TEXTS = (
    "", "x", "A b", "\u00e4", "\x00", "a/b", "..", "-1", "1Gi", "10%", "example.com/x", "127.0.0.1", "::1",
    "a" * 300, "2020-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "YQ==",
    "1" * 30, "In", "TCP", "cpu", "All", "Always",
)  # fmt: skip
NUMBERS = (0, 1, -1, 65536, 2**31, 2**63, -(2**63), 1.5, 1e30, 10**40)

scalars = st.none() | st.booleans() | st.sampled_from(NUMBERS) | st.sampled_from(TEXTS) | st.text(max_size=5)
junk = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def shaped(draw: Any, schema: Schema | None, depth: int) -> Any:
    """A value of the schema's type, or now and then something else."""
    if schema is None or draw(st.integers(0, 30)) == 0:
        return draw(junk)
    match schema.kind:
        case Kind.OBJECT:
            names = sorted(schema.fields.keys() - {"apiVersion", "kind", "managedFields"})
            chosen = (
                draw(st.lists(st.sampled_from(names), unique=True, max_size=6)) if names and depth else []
            )
            return {name: draw(shaped(schema.fields[name].schema, depth - 1)) for name in chosen}
        case Kind.MAP:
            keys = draw(st.lists(st.sampled_from(TEXTS), unique=True, max_size=2))
            return {key: draw(shaped(schema.items, depth - 1)) for key in keys}
        case Kind.LIST:
            return [draw(shaped(schema.items, depth - 1)) for _ in range(draw(st.integers(0, 2)))]
        case Kind.STRING:
            return draw(st.sampled_from(schema.enum or TEXTS))
        case Kind.INTEGER | Kind.NUMBER | Kind.INT_OR_STRING:
            return draw(st.sampled_from(NUMBERS[:6]))
        case Kind.BOOLEAN:
            return draw(st.booleans())
        case Kind.QUANTITY:
            return draw(st.sampled_from(("1", "0", "-1", "1Gi", "100m", "1e30", 5, 1.5)))
        case _:
            return draw(junk)


class Server:
    """A server in an event loop of its own, so that one serves every example."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.server = self.run(open_server())
        self.api = Caller(self.server)

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        self.run(close_server(self.server))
        self.run(self.loop.shutdown_default_executor())
        self.loop.close()


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


def check(answer: Answer) -> None:
    """The object, a list or a Status; a 500 only without a reason, as upstream's plain errors are."""
    body = answer.body
    assert body["kind"]
    if answer.status >= 400:
        assert (body["kind"], body["code"]) == ("Status", answer.status)
    if answer.status >= 500:
        assert "reason" not in body
        assert body["message"]


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_body(served: Server, data: st.DataObject) -> None:
    """Sent in every way to several resources, no body makes the server fail."""
    group, version, plural = data.draw(st.sampled_from(RESOURCES))
    resource = served.server.services.table.resource(group, version, plural)
    assert resource is not None
    body = data.draw(shaped(resource.schema, 4))
    if isinstance(body, dict) and data.draw(st.integers(0, 9)):
        body |= {"kind": resource.kind, "apiVersion": resource.api_version}
        metadata = body.get("metadata") if isinstance(body.get("metadata"), dict) else {}
        body["metadata"] = {**metadata, "name": "x"} if data.draw(st.booleans()) else {"name": "x"}
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    path = f"{root}/namespaces/default/{plural}" if resource.namespaced else f"{root}/{plural}"
    served.run(send(served.api, path, json.dumps(body).encode()))


async def send(api: Caller, path: str, body: bytes) -> None:
    """Create, replace, patch, apply, look, delete."""
    check(await api.post(path, body))
    check(await api.put(f"{path}/x", body))
    check(await api.put(f"{path}/x/status", body))
    for kind in PATCHES:
        check(await api.patch(f"{path}/x?fieldManager=m", body, kind))
    check(await api.patch(f"{path}/x/status?fieldManager=m&force=true", body, "apply"))
    check(await api.patch(f"{path}/x/scale", body, "merge"))
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"):
        check(await api.get(path, accept=accept))
    check(await api.delete(f"{path}/x", body))
    check(
        await api.delete(f"{path}/x", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    )
