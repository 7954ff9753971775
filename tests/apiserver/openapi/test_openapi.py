"""OpenAPI documents: definitions as upstream publishes them, paths that clients look for, protobuf."""

import importlib.util
import json
import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from custom_definitions import DEFINITIONS, until
from recorded import DATA
from server_in_process import Caller, close_server, open_server

from kubeskew.apimachinery.catalogue import Catalogue, catalogue_for
from kubeskew.apimachinery.catalogue.data import at
from kubeskew.apimachinery.catalogue.types import META, OBJECT_META
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.resources import (
    STANDARD_VERBS,
    GroupVersionKind,
    Resource,
    ResourceTable,
    Subresource,
)
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.apiserver import openapi
from kubeskew.apiserver.apiextensions.table import CustomResource
from kubeskew.apiserver.features import DocumentFeatures, Features
from kubeskew.apiserver.structuralschema import Structural, to_schema


def _loaded(path: str) -> Any:
    """The module in a file of the project, which need not be in a package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, Path(__file__).parents[3] / path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


digests: Any = _loaded("hack/recordings/openapi_digests.py")
V36 = Version(36)
TABLE = catalogue_for(V36)
DEFAULT = Features.of(FeatureGates(V36)).documents
DIGESTS = json.loads((DATA / "openapi_digests.json").read_text("utf-8"))
GVK = "x-kubernetes-group-version-kind"


def everything(minor: int, **gates: bool) -> tuple[Catalogue, DocumentFeatures]:
    """Returns what a release serves with all its gates on, and how it documents it."""
    version = Version(minor)
    found = FeatureGates(version, {"AllAlpha": True, "AllBeta": True, **gates})
    return catalogue_for(version, found, {"api/all": True}), Features.of(found).documents


def document(name: str, table: ResourceTable = TABLE, features: DocumentFeatures = DEFAULT) -> Any:
    """Returns a document of v3."""
    made = openapi.v3(table, features, name)
    assert made is not None
    return made


@pytest.mark.parametrize("minor", range(31, 37))
def test_documents_are_upstreams(minor: int) -> None:
    """Every document of v2 and v3 is what upstream publishes, but for prose."""
    table, features = everything(minor, OpenAPIEnums=False)
    names = openapi.v3_index(table, features, logs=True)["paths"]
    documents = {name: openapi.v3(table, features, name, logs=True) for name in names}
    whole, parts = digests.compared({digests.V2: openapi.v2(table, features, logs=True), **documents})
    published = {
        name: value if isinstance(value, str) else at(value, minor)
        for name, value in DIGESTS["parts"].items()
    }

    differing = [name for name in sorted({*parts, *published}) if published.get(name) != parts.get(name)]
    assert differing == []
    assert whole == DIGESTS["documents"][f"1.{minor}"]


def test_enums_are_reported() -> None:
    """With their gate on, fields list the values that the release's generated definitions have."""
    old, new = (everything(minor) for minor in (34, 36))
    group = "io.k8s.api.admissionregistration.v1.RuleWithOperations"
    device = "io.k8s.api.resource.v1.ExactDeviceRequest"

    def enum(made: tuple[Catalogue, DocumentFeatures], name: str, field: str) -> Any:
        return openapi.v2(*made)["definitions"][name]["properties"][field].get("enum")

    assert enum(old, group, "scope") is enum(old, device, "allocationMode") is None
    assert enum(new, group, "scope") == ["*", "Cluster", "Namespaced"]
    assert enum(new, device, "allocationMode") == ["All", "ExactCount"]


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
    table, features = catalogue_for(version), Features.of(FeatureGates(version)).documents
    made = openapi.v2(table, features)
    there = {
        f"#/{section}/{name}" for section in ("definitions", "parameters") for name in made.get(section, ())
    }

    assert set(_references(made)) <= there
    for name in openapi.v3_index(table, features)["paths"]:
        modern = document(name, table, features)
        names = {ref.removeprefix("#/components/schemas/") for ref in _references(modern)}
        assert names <= set(modern["components"].get("schemas", {}))


def test_paths_are_upstreams() -> None:
    """Every verb of the paths that 1.28 publishes is a method of ours."""
    made = openapi.v2(*everything(28))
    published = json.loads((DATA / "openapi_verbs.json").read_text("utf-8"))["1.28"]

    for path in published:
        group, served, *rest = path.split("/")
        base = f"/apis/{group}/{served}" if group else f"/api/{served}"
        tail = f"{rest[0]}/{{name}}/{rest[1]}" if rest[1:] else rest[0]
        assert {f"{base}/{tail}", f"{base}/namespaces/{{namespace}}/{tail}"} & set(made["paths"]), path


def test_patch_lists_the_parameters_clients_check() -> None:
    """kubectl decides about server-side dry run and validation by the parameters of PATCH."""
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    old = openapi.v2(TABLE, DEFAULT)["paths"][path]["patch"]
    new = document("apis/apps/v1")["paths"][path]["patch"]

    for operation in (old, new):
        assert {"dryRun", "fieldValidation"} <= {each.get("name") for each in operation["parameters"]}
        assert operation[GVK] == {"group": "apps", "kind": "Deployment", "version": "v1"}
    assert "application/apply-patch+yaml" in old["consumes"]
    assert "application/strategic-merge-patch+json" in new["requestBody"]["content"]


def test_kinds_of_a_preview_are_described() -> None:
    """Clients explain a design's kinds and fields: next to a reference in v2, and around it in v3."""
    version = Version(29, "kep4381")
    table = catalogue_for(version)
    name = "io.k8s.api.resource.v1alpha2.NodeResource"
    features = Features.of(FeatureGates(version)).documents
    old = openapi.v2(table, features)["definitions"]
    new = document("apis/resource.k8s.io/v1alpha2", table, features)["components"]["schemas"]
    attribute = "io.k8s.api.resource.v1alpha2.ResourceAttribute"

    for schemas in (old, new):
        assert schemas[name]["description"].startswith("A resource of a node")
        assert schemas[name]["properties"]["id"]["description"].startswith("Identifier that the driver")
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


def test_metadata_is_described() -> None:
    """Every field of an object's metadata has a description, which v3 has around a reference."""
    old = openapi.v2(TABLE, DEFAULT)["definitions"][OBJECT_META]
    new = document("apis/apps/v1")["components"]["schemas"][OBJECT_META]

    for schema in (old, new):
        assert all(
            schema["properties"][field]["description"] for field in TABLE.definition(OBJECT_META).fields
        )
    assert "allOf" in new["properties"]["creationTimestamp"]
    assert "$ref" in old["properties"]["creationTimestamp"]


def test_index() -> None:
    """The index names a document for every root, group and version; its hash changes with what is served."""
    index = openapi.v3_index(TABLE, DEFAULT)["paths"]
    table, features = everything(36, OpenAPIEnums=True, CBORServingAndStorage=False)
    other = openapi.v3_index(table, features)["paths"]
    older = Features.of(FeatureGates(Version(35))).documents

    assert index["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")
    assert {"api", "apis", "version", "apis/resource.k8s.io", "apis/resource.k8s.io/v1"} <= set(index)
    assert "apis/resource.k8s.io/v1beta1" not in index
    assert "apis/resource.k8s.io/v1beta1" in other
    assert index["apis/apps/v1"] == other["apis/apps/v1"]
    assert (
        index["apis/apps/v1"] != openapi.v3_index(catalogue_for(Version(35)), older)["paths"]["apis/apps/v1"]
    )
    for name in ("apis/nothing.example.com/v1", "apis/nothing.example.com", "logs", "api/v2", "", "apis/"):
        assert openapi.v3(TABLE, DEFAULT, name) is None
        assert openapi.v3_hash(TABLE, DEFAULT, name) == ""


def test_schemas_do_not_depend_on_gates() -> None:
    """A gate changes what is served, never a definition."""
    gates = FeatureGates(V36, {"DRAExtendedResource": False})
    made = openapi.v2(catalogue_for(V36, gates), Features.of(gates).documents)
    name = "io.k8s.api.resource.v1.DeviceClassSpec"

    assert "extendedResourceName" in made["definitions"][name]["properties"]


@pytest.mark.parametrize(("minor", "shown"), [(30, "v1.30.14"), (31, "1.31")])
def test_version(minor: int, shown: str) -> None:
    """Documents show the server's version, since 1.31 the minor that it emulates."""
    version = Version(minor)
    made = openapi.v2(catalogue_for(version), Features.of(FeatureGates(version)).documents)

    assert made["info"] == {"title": "Kubernetes", "version": shown}


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
            list_name="CronTabList",
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

    old = openapi.v2(table, DEFAULT)
    new = document("apis/stable.example.com/v1", table)

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
    index = openapi.v3_index(table, DEFAULT)["paths"]
    assert "?hash=" in index["apis/stable.example.com/v1"]["serverRelativeURL"]
    assert "apis/stable.example.com" not in index  # discovery of custom groups is not documented
    get = new["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/crontabs/{name}/status"]["get"]
    assert [parameter["name"] for parameter in get["parameters"]] == ["resourceVersion"]
    kinds = new["components"]["schemas"][f"{META}DeleteOptions"][GVK]
    assert {"group": "apps", "kind": "DeleteOptions", "version": "v1"} in kinds
    assert not any(kind["group"] == "apiregistration.k8s.io" for kind in kinds)


async def test_custom_resources_are_upstreams() -> None:
    """The documents of custom resources are those of kube-apiserver 1.36.3, but for prose."""
    recorded = json.loads((DATA / "openapi_custom.json").read_text("utf-8"))
    server = await open_server(Version(36, patch=3))
    api = Caller(server)
    for definition in recorded["definitions"]:
        await api.post(DEFINITIONS, definition)
    for definition in recorded["definitions"]:
        spec = definition["spec"]
        await until(api, spec["names"]["plural"], "Established", group=spec["group"])
    documents = {name: (await api.get(f"/openapi/v3/{name}")).body for name in recorded["documents"]}
    whole, parts = digests.compared({digests.V2: (await api.get("/openapi/v2")).body, **documents})
    await close_server(server)

    assert {name: parts.get(name) for name in recorded["parts"]} == recorded["parts"]
    assert {name: whole[name] for name in documents} == recorded["documents"]


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
    made = openapi.v2(TABLE, DEFAULT)
    message = parse(openapi.v2_protobuf(made))
    definitions = named(message[9][0], 1)
    paths = named(message[8][0], 2)

    assert message[1] == [b"2.0"]
    assert parse(message[2][0]) == {1: [b"Kubernetes"], 2: [b"1.36"]}
    assert set(definitions) == set(made["definitions"])
    assert set(paths) == set(made["paths"])
    pod = definitions["io.k8s.api.core.v1.Pod"]
    assert set(named(pod[25][0], 1)) == {"apiVersion", "kind", "metadata", "spec", "status"}
    extension = parse(pod[31][0])
    assert extension[1] == [GVK.encode()]
    assert orjson.loads(parse(extension[2][0])[2][0]) == [{"group": "", "kind": "Pod", "version": "v1"}]
    patch = parse(paths["/api/v1/namespaces/{namespace}/pods/{name}"][8][0])
    queries, shared = [], []
    for item in map(parse, patch[8]):
        if 2 in item:
            shared.append(parse(item[2][0])[1][0].decode().removeprefix("#/parameters/"))
            continue
        parameter = parse(item[1][0])
        queries.append(parse(parse(parameter[2][0])[3][0])[4][0])
    assert queries == [b"dryRun", b"fieldValidation"]
    assert [name.partition("-")[0] for name in shared] == ["body", "fieldManager", "force"]
    assert set(shared) <= set(named(message[10][0], 1)) == set(made["parameters"])


def test_protobuf_of_v3() -> None:
    """The protobuf form of v3 holds the same paths and schemas, with references, defaults and extensions."""
    made = document("apis/apps/v1")
    message = parse(openapi.v3_protobuf(made))
    components = parse(message[5][0])
    schemas, paths = named(components[1][0], 1), named(message[4][0], 1)
    deployment = parse(schemas["io.k8s.api.apps.v1.Deployment"][1][0])
    spec = parse(named(deployment[31][0], 1)["spec"][1][0])
    patch = parse(paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"][10][0])

    assert message[1] == [b"3.0.0"]
    assert set(schemas) == set(made["components"]["schemas"])
    assert set(paths) == set(made["paths"])
    assert parse(parse(spec[26][0])[2][0])[1] == [b"#/components/schemas/io.k8s.api.apps.v1.DeploymentSpec"]
    assert spec[33] == [b""]  # a default that is an object
    assert parse(deployment[36][0])[1] == [GVK.encode()]
    assert patch[5] == [b"patchAppsV1NamespacedDeployment"]
    assert [parse(parse(each)[1][0])[1][0] for each in patch[6]] == [
        b"dryRun",
        b"fieldManager",
        b"fieldValidation",
        b"force",
    ]
    assert set(named(components[7][0], 1)) == {"BearerToken"}


@pytest.mark.parametrize("write", [openapi.v2_protobuf, openapi.v3_protobuf])
def test_protobuf_of_custom_schemas(write: Any) -> None:
    """Numbers, patterns and maps of anything, which only custom resources have, are in protobuf, too."""
    table = CustomTable()
    made = (
        openapi.v2(table, DEFAULT)
        if write is openapi.v2_protobuf
        else document("apis/stable.example.com/v1", table)
    )
    schemas = made.get("definitions") or made["components"]["schemas"]
    plain = write(made)
    schemas["com.example.stable.v1.CronTab"]["properties"]["spec"] |= {"maxLength": 300, "minimum": 0.5}
    numbered = write(made)
    schemas["com.example.stable.v1.CronTab"]["properties"]["spec"]["additionalProperties"] = True

    assert struct.pack("<d", 0.5) in numbered
    assert b"\xac\x02" in numbered
    assert struct.pack("<d", 0.5) not in plain
    assert b"\x02\x10\x01" in write(made)
