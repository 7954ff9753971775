"""Ownership after writes that reset fields, or are of another version (recorded of 1.36.3)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from custom_definitions import GROUP, define, path, version
from server_in_process import Caller, close_server, open_server

SECRETS = "/api/v1/namespaces/default/secrets"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
CLAIM = (
    "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
    {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}},
    {"reservedFor": []},
)
RANGE = ("/apis/networking.k8s.io/v1/servicecidrs", {"cidrs": ["10.97.0.0/16"]}, {"conditions": []})
SERVICE = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
API = (
    "/apis/apiregistration.k8s.io/v1/apiservices",
    {**SERVICE, "service": {"name": "x", "namespace": "default"}},
    {"conditions": [{"type": "X", "status": "True"}]},
)
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ALL = {"f:annotations", "f:labels"}


@asynccontextmanager
async def server(minor: int = 36, **options: Any) -> AsyncIterator[Caller]:
    """Calls a server of a release."""
    opened = await open_server(minor, **options)
    try:
        yield Caller(opened)
    finally:
        await close_server(opened)


def owned(obj: dict[str, Any], manager: str) -> dict[str, Any]:
    """Returns the fields that a manager owns."""
    entries = obj["metadata"].get("managedFields") or ()
    return next((entry["fieldsV1"] for entry in entries if entry["manager"] == manager), {})


@pytest.mark.parametrize(
    ("minor", "kind", "metadata"),
    [
        (34, CLAIM, ALL),
        (35, CLAIM, set()),
        (35, RANGE, ALL),
        (36, RANGE, set()),
        (31, API, set()),
        (36, API, set()),
    ],
)
async def test_metadata_by_the_status(minor: int, kind: tuple[str, Any, Any], metadata: set[str]) -> None:
    """The writer of a status owns metadata by it only where the release lets it (GetResetFields)."""
    target, spec, status = kind
    name = "v1.a.example.com" if kind is API else "a"
    async with server(minor) as api:
        made = await api.post(target, {"metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made.raw
        body = {"metadata": {"labels": {"z": "w"}, "annotations": {"q": "r"}}, "status": status}
        written = await api.patch(f"{target}/{name}/status?fieldManager=st", body)
        assert written.status == 200, written.raw
        assert owned(written.body, "st").get("f:metadata", {}).keys() == metadata
        assert "labels" not in written.body["metadata"]


@pytest.mark.parametrize(("minor", "metadata"), [(35, set()), (36, {"f:labels"})])
async def test_definitions_let_metadata_be_owned_by_their_status(minor: int, metadata: set[str]) -> None:
    """Metadata changes with the status of a definition; since 1.36 its writer owns it (issue 137681)."""
    async with server(minor) as api:
        await define(api, "foos")
        body = {"metadata": {"labels": {"z": "w"}}}
        written = await api.patch(f"{DEFINITIONS}/foos.{GROUP}/status?fieldManager=st", body)
        assert written.body["metadata"]["labels"] == {"z": "w"}
        assert owned(written.body, "st").get("f:metadata", {}).keys() == metadata


@pytest.mark.parametrize(("gates", "kept"), [({}, False), ({"ServiceCIDRStatusFieldWiping": False}, True)])
async def test_the_status_of_service_ranges(gates: dict[str, bool], kept: bool) -> None:
    """The creator of a range gives it no status, unless the gate of 1.36 is off."""
    target, spec, _ = RANGE
    condition = {
        "type": "X",
        "status": "True",
        "reason": "r",
        "message": "",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    async with server(36, gates=gates) as api:
        body = {"metadata": {"name": "a"}, "spec": spec, "status": {"conditions": [condition]}}
        made = (await api.post(target, body)).body
        assert bool(made.get("status")) is kept


async def test_texts_of_secrets_are_owned_as_data() -> None:
    """`stringData` is converted before ownership is worked out; who applies it owns it as it was applied."""
    async with server() as api:
        body = {"metadata": {"name": "s"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}
        made = (await api.post(f"{SECRETS}?fieldManager=one", body)).body
        assert owned(made, "one") == {"f:data": {".": {}, "f:a": {}, "f:c": {}}, "f:type": {}}
        changed = (await api.patch(f"{SECRETS}/s?fieldManager=two", {"stringData": {"m": "n"}})).body
        assert owned(changed, "two") == {"f:data": {"f:m": {}}}
        config = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"m": "o"}}
        applied = (await api.patch(f"{SECRETS}/s?fieldManager=three", config, "apply")).body
        assert owned(applied, "three") == {"f:stringData": {"f:m": {}}}
        assert applied["data"] == {"a": "Yg==", "c": "ZA==", "m": "bw=="}


@pytest.mark.parametrize(("minor", "known"), [(33, False), (36, True)])
async def test_answers_to_requests_for_tokens(minor: int, known: bool) -> None:
    """A request for a token is managed like all that is posted, and names the account's uid since 1.34."""
    async with server(minor) as api:
        made = (await api.post(f"{TOKEN}?fieldManager=me", {"spec": {}})).body["metadata"]
        entry = made["managedFields"][0]
        assert (entry["manager"], entry["subresource"]) == ("me", "token")
        assert entry["fieldsV1"] == {"f:spec": {"f:expirationSeconds": {}}}
        assert ("uid" in made) is known
        other = await api.post(TOKEN, {"metadata": {"uid": "other"}, "spec": {}})
        assert other.status == (409 if known else 201)


async def test_apply_over_an_older_version_without_a_field() -> None:
    """An object has to fit the schema of every manager's version, whoever applies; other writes then lose all
    managers (reconcileManagedFieldsWithSchemaChanges).
    """
    older, newer = version("v1", storage=False, fields="port"), version("v2", fields="port policy")
    newer["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["policy"]["default"] = "deny"
    kind = {"metadata": {"name": "f"}, "kind": "Foo", "spec": {"port": "http"}}
    async with server() as api:
        await define(api, "foos", older, newer)
        target = f"{path('foos', 'v1')}/f?fieldManager=flux"
        await api.patch(target, {**kind, "apiVersion": f"{GROUP}/v1"}, "apply")
        for manager in ("flux", "other"):
            target = f"{path('foos', 'v2')}/f?fieldManager={manager}"
            answer = await api.patch(target, {**kind, "apiVersion": f"{GROUP}/v2"}, "apply")
            assert (answer.status, answer.body["message"]) == (
                500,
                ".spec.policy: field not declared in schema",
            )
        changed = await api.patch(f"{path('foos', 'v2')}/f", {"metadata": {"labels": {"a": "b"}}})
        assert "managedFields" not in changed.body["metadata"]


async def test_a_repeated_apply_of_an_empty_list() -> None:
    """It writes nothing: nil is as good as empty where objects have Go types (fieldmanager/equality.go)."""
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "r"},
        "rules": [],
    }
    async with server() as api:
        one, two = [
            (await api.patch(f"{roles}/r?fieldManager=t", body, "apply")).body["metadata"] for _ in "12"
        ]
        assert one["managedFields"][0]["fieldsV1"] == {"f:rules": {}}
        assert one == two
