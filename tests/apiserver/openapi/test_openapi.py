"""OpenAPI documents: definitions as upstream publishes them, paths that clients look for, protobuf."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import pytest
from recorded import DATA

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.catalogue.types import OBJECT_META
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import STANDARD_VERBS, GroupVersionKind, Resource, Subresource
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver import openapi
from kubeskew.apiserver.apiextensions.model import CustomResource
from kubeskew.apiserver.structuralschema import Structural, to_schema

V36 = Version(36)
TABLE = catalogue_for(V36)
EVERYTHING = catalogue_for(V36, FeatureGates(V36, {"AllAlpha": True, "AllBeta": True}), {"api/all": True})
PUBLISHED = json.loads((DATA / "openapi_definitions_1_36.json").read_text("utf-8"))
GVK = "x-kubernetes-group-version-kind"


def comparable(schema: Any) -> Any:
    """A schema without what the published document leaves out or orders otherwise."""
    if isinstance(schema, list):
        return [comparable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    left_out = {"enum", "x-kubernetes-unions"}
    kept = {key: comparable(value) for key, value in schema.items() if key not in left_out}
    if kept.get("x-kubernetes-list-type") == "atomic":
        del kept["x-kubernetes-list-type"]  # atomic is also what no list type means
    if isinstance(kept.get("required"), list):
        kept["required"] = sorted(kept["required"])
    return kept


@pytest.mark.parametrize("name", PUBLISHED)
def test_definitions_are_upstreams(name: str) -> None:
    """A definition of v2 is what upstream publishes for 1.36."""
    found = openapi.v2(EVERYTHING, V36)["definitions"][name]

    assert comparable(found) == comparable(PUBLISHED[name])


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for one in value.values():
            yield from _references(one)
    elif isinstance(value, list):
        for one in value:
            yield from _references(one)


@pytest.mark.parametrize("version", SUPPORTED, ids=str)
def test_references_lead_somewhere(version: Version) -> None:
    """No document refers to a definition that it lacks."""
    table = catalogue_for(version)
    document = openapi.v2(table, version)

    assert {ref.removeprefix("#/definitions/") for ref in _references(document)} <= set(
        document["definitions"]
    )
    for group, versions in table.groups():
        modern = openapi.v3(table, version, group, versions[0])
        names = {ref.removeprefix("#/components/schemas/") for ref in _references(modern)}
        assert names <= set(modern["components"]["schemas"])


@pytest.mark.parametrize("minor", [28, 36])
def test_paths_are_upstreams(minor: int) -> None:
    """Every verb of the published paths is a method of ours, with its kind."""
    version = Version(minor)
    gates = FeatureGates(version, {"AllAlpha": True, "AllBeta": True})
    document = openapi.v2(catalogue_for(version, gates, {"api/all": True}), version)
    published = json.loads((DATA / "openapi_verbs.json").read_text("utf-8"))[f"1.{minor}"]

    pods = document["paths"]["/api/v1/namespaces/{namespace}/pods"]
    assert pods["get"]["operationId"] == "listCoreV1NamespacedPod"
    assert pods["delete"]["x-kubernetes-action"] == "deletecollection"
    assert document["paths"]["/api/v1/pods"]["get"]["operationId"] == "listCoreV1PodForAllNamespaces"
    for path in published:
        group, served, *rest = path.split("/")
        base = f"/apis/{group}/{served}" if group else f"/api/{served}"
        tail = f"{rest[0]}/{{name}}/{rest[1]}" if rest[1:] else rest[0]
        assert {f"{base}/{tail}", f"{base}/namespaces/{{namespace}}/{tail}"} & set(document["paths"]), path


def test_patch_lists_the_parameters_clients_check() -> None:
    """kubectl decides about server-side dry run and validation by the parameters of PATCH."""
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    old = openapi.v2(TABLE, V36)["paths"][path]["patch"]
    new = openapi.v3(TABLE, V36, "apps", "v1")["paths"][path]["patch"]

    for operation in (old, new):
        query = {parameter["name"] for parameter in operation["parameters"] if parameter["in"] == "query"}
        assert {"dryRun", "fieldManager", "fieldValidation", "force"} <= query
        assert operation[GVK] == {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert "application/apply-patch+yaml" in old["consumes"]
    assert "application/strategic-merge-patch+json" in new["requestBody"]["content"]


def test_modern_schemas_carry_defaults() -> None:
    """v3 knows Go's zero values, quantities that are numbers, and enums."""
    schemas = openapi.v3(TABLE, V36, "apps", "v1")["components"]["schemas"]
    deployment = schemas["io.k8s.api.apps.v1.Deployment"]["properties"]
    container = schemas["io.k8s.api.core.v1.Container"]["properties"]
    prefix = "#/components/schemas/"

    assert deployment["spec"] == {
        "allOf": [{"$ref": f"{prefix}io.k8s.api.apps.v1.DeploymentSpec"}],
        "default": {},
    }
    assert container["name"] == {"type": "string", "default": ""}
    assert container["imagePullPolicy"]["enum"] == ["Always", "IfNotPresent", "Never"]
    assert container["lifecycle"] == {"$ref": f"{prefix}io.k8s.api.core.v1.Lifecycle"}
    assert schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"] == {
        "oneOf": [{"type": "string"}, {"type": "number"}]
    }
    assert schemas["io.k8s.api.apps.v1.DeploymentList"][GVK][0]["kind"] == "DeploymentList"


def test_kinds_of_a_preview_are_described() -> None:
    """Clients explain a design's kinds and fields: beside a reference in v2, and around it in v3."""
    version = Version(29, "kep4381")
    table = catalogue_for(version)
    name = "io.k8s.api.resource.v1alpha2.NodeResource"
    old = openapi.v2(table, version)["definitions"]
    new = openapi.v3(table, version, "resource.k8s.io", "v1alpha2")["components"]["schemas"]
    attribute = "io.k8s.api.resource.v1alpha2.ResourceAttribute"

    for document in (old, new):
        assert document[name]["description"].startswith("A resource of a node")
        assert document[name]["properties"]["id"]["description"].startswith("Identifier that the driver")
    said = "An amount, of which claims take parts."
    reference = "io.k8s.api.resource.v1alpha2.CounterAttribute"
    assert old[attribute]["properties"]["counter"] == {
        "description": said,
        "$ref": f"#/definitions/{reference}",
    }
    assert new[attribute]["properties"]["counter"] == {
        "description": said,
        "allOf": [{"$ref": f"#/components/schemas/{reference}"}],
    }


def test_index() -> None:
    """The index names every served group version; its hash changes with what is served."""
    index = openapi.v3_index(TABLE, V36)["paths"]
    other = openapi.v3_index(EVERYTHING, V36)["paths"]

    assert index["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    assert "apis/resource.k8s.io/v1" in index
    assert "apis/resource.k8s.io/v1beta1" in other
    assert index["apis/apps/v1"] == other["apis/apps/v1"]
    assert (
        index["apis/apps/v1"]
        != openapi.v3_index(catalogue_for(Version(35)), Version(35))["paths"]["apis/apps/v1"]
    )
    with pytest.raises(StatusError):
        openapi.v3(TABLE, V36, "nothing.example.com", "v1")


def test_schemas_do_not_depend_on_gates() -> None:
    """A gate changes what is served, never a definition."""
    off = catalogue_for(Version(36), FeatureGates(Version(36), {"DRAExtendedResource": False}))
    name = "io.k8s.api.resource.v1.DeviceClassSpec"

    assert "extendedResourceName" in openapi.v2(off, V36)["definitions"][name]["properties"]


class CustomTable:
    """One custom resource."""

    def __init__(self) -> None:
        color = {"type": "string", "enum": ["red", "blue"], "nullable": True, "default": "red"}
        free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        properties = {"color": color, "port": {"x-kubernetes-int-or-string": True}, "free": free}
        spec = {"type": "object", "description": "What is wanted.", "properties": properties}
        structural = Structural.of({"type": "object", "properties": {"spec": spec}, "required": ["spec"]})
        gvk = GroupVersionKind("stable.example.com", "v1", "CronTab")
        self.one = CustomResource(
            group=gvk.group,
            version=gvk.version,
            plural="crontabs",
            singular="crontab",
            kind=gvk.kind,
            namespaced=True,
            verbs=STANDARD_VERBS,
            schema=to_schema(structural, TABLE.definition(OBJECT_META)),
            storage=gvk,
            storage_resource="crontabs.stable.example.com",
            subresources={"status": Subresource("status", gvk, frozenset({"get", "patch", "update"}))},
            custom=True,
            structural=structural,
        )

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        return self.one

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return self.one

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        return [("stable.example.com", ["v1"])]

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        return [self.one] if (group, version) == ("stable.example.com", "v1") else []


def test_custom_resources() -> None:
    """A custom resource is documented like a built-in one, under its group's name read backwards."""
    table = CustomTable()
    name = "com.example.stable.v1.CronTab"

    old = openapi.v2(table, V36)
    new = openapi.v3(table, V36, "stable.example.com", "v1")

    items = old["definitions"][f"{name}List"]["properties"]["items"]
    assert items["items"] == {"$ref": f"#/definitions/{name}"}
    assert old["definitions"][name][GVK] == [
        {"group": "stable.example.com", "kind": "CronTab", "version": "v1"}
    ]
    spec = new["components"]["schemas"][name]["properties"]["spec"]["properties"]
    assert spec["color"] == {"type": "string", "enum": ["red", "blue"], "nullable": True, "default": "red"}
    assert spec["port"]["x-kubernetes-int-or-string"] is True
    assert spec["port"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    assert spec["free"]["x-kubernetes-preserve-unknown-fields"] is True
    metadata = new["components"]["schemas"][name]["properties"]["metadata"]
    assert metadata["allOf"] == [{"$ref": f"#/components/schemas/{OBJECT_META}"}]
    patch = new["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert patch["operationId"] == "patchStableExampleComV1NamespacedCronTab"
    url = openapi.v3_index(table, V36)["paths"]["apis/stable.example.com/v1"]["serverRelativeURL"]
    assert "?hash=" in url


# Protobuf, read back with the little that this needs.


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def parse(data: bytes) -> dict[int, list[Any]]:
    """Field number → values (bytes or integers) of one message."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        size, at = _varint(data, at)
        if key & 7 == 2:
            found.setdefault(key >> 3, []).append(data[at : at + size])
            at += size
        else:
            found.setdefault(key >> 3, []).append(size)
    return found


def named(message: bytes, field: int) -> dict[str, dict[int, list[Any]]]:
    """A gnostic map as a dict of parsed values."""
    entries = (parse(entry) for entry in parse(message)[field])
    return {entry[1][0].decode(): parse(entry[2][0]) for entry in entries}


def test_protobuf() -> None:
    """The protobuf form holds the same definitions, extensions as YAML, and the parameters of PATCH."""
    document = openapi.v2(TABLE, V36)
    message = parse(openapi.v2_protobuf(document))
    definitions = named(message[9][0], 1)
    paths = named(message[8][0], 2)

    assert message[1] == [b"2.0"]
    assert parse(message[2][0]) == {1: [b"Kubernetes"], 2: [b"v1.36.5"]}
    assert set(definitions) == set(document["definitions"])
    assert set(paths) == set(document["paths"])
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert set(named(pod[25][0], 1)) == {"apiVersion", "kind", "metadata", "spec", "status"}
    extension = parse(pod[31][0])
    assert extension[1] == [GVK.encode()]
    assert orjson.loads(parse(extension[2][0])[2][0]) == [{"group": "", "kind": "Pod", "version": "v1"}]
    patch = parse(paths["/api/v1/namespaces/{namespace}/pods/{name}"][8][0])
    queries = []
    for item in patch[8]:
        parameter = parse(parse(item)[1][0])
        if 2 in parameter:
            queries.append(parse(parse(parameter[2][0])[3][0])[4][0])
    assert queries == [b"dryRun", b"fieldManager", b"fieldValidation", b"force"]
