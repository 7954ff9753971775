"""Facts of published documents: a small release in, what it says beyond the catalogue out."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.schema import Field, Kind, Schema
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.releases.tree.document_facts import document_facts, history
from kubeskew.releases.tree.source_tree import SourceTree

HACK = Path(__file__).parents[3] / "hack" / "catalogue"
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
GVK = "x-kubernetes-group-version-kind"
NODE = {"group": "", "kind": "Node", "version": "v1"}
GENERATED = """func schema_k8sio_api_core_v1_Taint(ref common.ReferenceCallback) common.OpenAPIDefinition {
\t\t\t\t\t"key": {
\t\t\t\t\t\tEnum:        []interface{}{"a", "b"},
"""


def release(directory: Path) -> Path:
    """Writes the source of a release that publishes a path and two schemas."""
    spec = directory / "api" / "openapi-spec"
    (spec / "v3").mkdir(parents=True)
    (directory / "pkg/generated/openapi").mkdir(parents=True)
    (directory / "pkg/generated/openapi/zz_generated.openapi.go").write_text(GENERATED)
    for types in ("pkg/apis/core/types.go", "staging/src/k8s.io/api/core/v1/types.go"):
        (directory / types).parent.mkdir(parents=True)
        (directory / types).write_text("package core\n")
    reference = {"$ref": f"#/components/schemas/{META}Time"}
    taint = {
        "required": ["key", "effect"],
        "properties": {"timeAdded": reference, "key": {"type": "string", "x-kubernetes-map-type": "atomic"}},
    }
    v3 = {"components": {"schemas": {"io.k8s.api.core.v1.Taint": taint}}}
    (spec / "v3" / "api__v1_openapi.json").write_text(json.dumps(v3))
    answer = {"200": {"schema": {"$ref": "#/definitions/io.k8s.api.core.v1.Node"}}}
    delete = {"x-kubernetes-action": "delete", GVK: NODE, "responses": answer, "parameters": []}
    patch = {"x-kubernetes-action": "patch", GVK: NODE, "parameters": [{"$ref": "#/parameters/force-abc"}]}
    shared = {"force-abc": {"name": "force", "in": "query"}, "name-def": {"name": "name", "in": "path"}}
    kinds = [{"group": "", "version": "v1"}, {"group": "apps", "version": "v1"}]
    item = {"delete": delete, "patch": patch, "parameters": [{"$ref": "#/parameters/name-def"}]}
    v2 = {
        "definitions": {f"{META}DeleteOptions": {GVK: kinds}},
        "parameters": shared,
        "paths": {"/api/v1/nodes/{name}": item},
    }
    (spec / "swagger.json").write_text(json.dumps(v2))
    return directory


def test_facts_of_a_release(tmp_path: Path) -> None:
    """The file shows what published documents say beyond the catalogue, and of which release."""
    output = tmp_path / "openapi.json"
    arguments = ["--output", str(output), f"1.36.3={release(tmp_path / 'source')}"]
    subprocess.run([sys.executable, HACK / "openapi_facts.py", *arguments], check=True, capture_output=True)
    made: dict[str, Any] = json.loads(output.read_text())

    assert made.pop("about").startswith("What the OpenAPI documents")
    taint = "io.k8s.api.core.v1.Taint"
    assert made == {
        "origin": {"1.36": "1.36.3"},
        "registered": {"apps/v1": 1, "v1": 1},
        "returned": {"nodes": 1},
        "bare": {f"{taint}.timeAdded": 1},
        "order": {taint: ["key", "effect"]},
        "extensions": {f"{taint}.key": {"x-kubernetes-map-type": "atomic"}},
        "enums": {
            f"{taint}.effect": [[36, 36, []]],
            f"{taint}.key": [[36, 36, ["a", "b"]]],
        },
        "shared": {"": {"force": "abc", "name": "def"}},
    }


def test_facts_are_beyond_the_releases_own_types(tmp_path: Path) -> None:
    """A release is compared with the types of its own catalogue, not with those of a shipped one."""
    version = Version(36)
    tree = SourceTree(release(tmp_path))
    features = Features.of(FeatureGates(version, {"OpenAPIEnums": False})).documents
    name = "io.k8s.api.core.v1.Taint"
    key = Field(Schema(Kind.MAP, items=Schema(Kind.STRING, enum=("a", "b")), map_type="atomic"))
    own = {name: Schema(Kind.OBJECT, name, fields={"key": key})}

    known, unknown = (document_facts(tree, types, features) for types in (own, {}))

    assert (known["extensions"], known["enums"]) == ({}, {})
    assert unknown["extensions"] == {f"{name}.key": {"x-kubernetes-map-type": "atomic"}}
    made = history({version: unknown})
    assert made["origin"] == {"1.36": "1.36"}
    assert made["order"] == {name: ["key", "effect"]}
