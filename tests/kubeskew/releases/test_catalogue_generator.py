"""The generator of the catalogue: types of two releases in, histories out."""

from typing import Any

import pytest

from kubeskew.apimachinery.versions import NEWEST_MINOR
from kubeskew.releases.catalogue.assembly import catalogue, read_releases
from kubeskew.releases.catalogue.gates import gate_table

META = "io.k8s.apimachinery.pkg.apis.meta.v1."

OBJECT_META = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "creationTimestamp": {"$ref": f"#/definitions/{META}Time"},
    },
}


def types(version: str, fields: dict[str, Any], enum: list[str]) -> dict[str, Any]:
    """One group with one kind, an embedded struct and an enum."""
    thing = {
        "<inline:metav1.TypeMeta>": {"type": "metav1.TypeMeta"},
        "<inline:metav1.ObjectMeta>": {"type": "metav1.ObjectMeta", "omitempty": True},
        "spec": {"type": "ThingSpec", "omitempty": True, "markers": ["optional"]},
    }
    return {
        "version": version,
        "types": {
            "apps/v1": {
                "Thing": {"fields": thing},
                "ThingSpec": {"fields": {"<inline:Shared>": {"type": "Shared"}, **fields}},
                "Shared": {"fields": {"name": {"type": "string"}}},
                "Mode": {"alias": "string", "markers": ["+enum"], "values": enum},
                "Free": {"alias": "string"},
                "Unused": {"fields": {"a": {"type": "string"}}},
            },
            "autoscaling/v1": {"Scale": {"fields": {"a": {"type": "string"}}}},
            "policy/v1beta1": {"Eviction": {"fields": {"a": {"type": "string"}}}},
            "core/v1": {"PodExecOptions": {"fields": {"a": {"type": "string"}}}},
        },
    }


OPENAPI = {
    "version": "1.36",
    "definitions": {
        f"{META}ObjectMeta": OBJECT_META,
        f"{META}Time": {"type": "string", "format": "date-time"},
        "io.k8s.api.apps.v1.ThingSpec": {
            "type": "object",
            "required": ["mode"],
            "properties": {
                "mode": {"type": "string"},
                "list": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            },
        },
    },
}
FACTS = {
    "discovery": {
        "gates": {},
        "groupOrder": {"1.36-": ["apps"]},
        "resources": [
            {"group": "apps", "version": "v1", "resource": "things", "kind": "Thing", "singular": "thing",
             "namespaced": True, "verbs": "std", "minors": "1.36-"},
        ],
    },
    "storage-versions": {"kinds": {"apps/Thing": [[36, 37, "apps/v1"]]}},
    "printer-columns": {"kinds": {}},
    "field-gates": [{"field": "apps.v1.ThingSpec.gone", "gates": ["Old"]}],
    "gates": {
        "gates": {
            "Fancy": {"specs": [[37, "Alpha", 0, 0]], "first": 37, "last": 99},
            "Old": {"specs": [[36, "Beta", 1, 0]], "first": 36, "last": 36},
        },
    },
}  # fmt: skip


@pytest.fixture(name="document")
def made() -> dict[str, Any]:
    """The catalogue of two small releases."""
    mode = {"type": "Mode", "omitempty": True}
    old = types("1.36", {"mode": mode, "gone": {"type": "int32"}, "list": {"type": "[]string"}}, ["A"])
    fancy = {"type": "*Free", "omitempty": True, "markers": ["optional", "featureGate=Fancy"]}
    new = types("1.37", {"mode": mode, "fancy": fancy, "list": {"type": "[]string"}}, ["A", "B"])
    return catalogue({36: old, 37: new}, {36: OPENAPI}, FACTS)


def test_histories(document: dict[str, Any]) -> None:
    """Fields, enum values and gates are kept with the releases that have them."""
    definitions = document["definitions"]
    spec = definitions["io.k8s.api.apps.v1.ThingSpec"]["f"]
    specs = document["specs"]

    assert document["minors"] == [36, 37]
    assert [run[:2] for run in spec["gone"]] == [[36, 36]]
    assert specs[spec["gone"][0][2]] == {"t": "int32", "r": 1, "g": ["Old"]}
    assert [run[:2] for run in spec["fancy"]] == [[37, 37]]
    assert specs[spec["fancy"][0][2]] == {"t": "'v1.Free'string", "o": 1, "p": 1, "g": ["Fancy"]}
    assert specs[spec["mode"]] == {"t": "io.k8s.api.apps.v1.Mode", "o": 1, "r": 1}
    assert specs[spec["list"]] == {"t": "[]string", "lt": "set"}
    assert specs[spec["name"]] == {"t": "string", "r": 1}
    assert definitions["io.k8s.api.apps.v1.Mode"]["e"] == {"A": 1, "B": [[37, 37]]}


def test_the_shared_machinery_is_borrowed() -> None:
    """A release whose facts lack the shared machinery's Go source has it from the nearest one."""
    time = {"type": "Time"}
    sources = {
        minor: {
            "k8s.io/apimachinery/pkg/apis/meta/v1": {"Time": {"fields": {}}, "ObjectMeta": {"fields": one}}
        }
        for minor, one in (
            (35, {"creationTimestamp": time}),
            (37, {"creationTimestamp": time | {"omitzero": True}}),
        )
    }
    documents = {minor: types(f"1.{minor}", {}, ["A"]) for minor in (33, 35, 37, 38)}
    documents = {
        minor: document | ({"machinery": sources[minor]} if minor in sources else {})
        for minor, document in documents.items()
    }

    found = read_releases(documents, {36: OPENAPI})

    created = {minor: found[minor][f"{META}ObjectMeta"]["fields"]["creationTimestamp"] for minor in found}
    assert {minor for minor, spec in created.items() if "o" in spec} == {37, 38}
    assert {minor for minor, spec in created.items() if "p" in spec} == set()


def test_only_what_is_reachable(document: dict[str, Any]) -> None:
    """Types that no kind needs are left out; kinds start with kind, apiVersion and metadata."""
    thing = document["definitions"]["io.k8s.api.apps.v1.Thing"]["f"]

    assert "io.k8s.api.apps.v1.Unused" not in document["definitions"]
    assert list(thing) == ["kind", "apiVersion", "metadata", "spec"]
    assert "o" not in document["specs"][thing["spec"]]
    assert document["storage"] == {"apps/Thing": [[36, 37, "apps/v1"]]}
    assert document["kinds"]["apps/v1/Thing"] == "io.k8s.api.apps.v1.Thing"


def test_a_kind_without_a_storage_version_is_named() -> None:
    """Nothing guesses in which version a kind is stored: the facts must say it of every minor."""
    stored = {"kinds": {"apps/Thing": [[37, 37, "apps/v1"]]}}
    documents = {minor: types(f"1.{minor}", {}, ["A"]) for minor in (36, 37)}

    with pytest.raises(
        ValueError, match=r"^1\.36: storage-versions\.json has no version .* apps/Thing is stored$"
    ):
        catalogue(documents, {36: OPENAPI}, FACTS | {"storage-versions": stored})


def test_gates_of_the_table() -> None:
    """A gate has a spec for each change, and the releases that know it; the newest release has no end."""
    facts = {
        "gates": {
            "Kept": [[33, 35, "Alpha", 0, 0], [36, NEWEST_MINOR, "GA", 1, 1]],
            "Gone": [[33, 34, "Beta", 1, 0]],
        },
        "dependencies": {"Kept": [[35, NEWEST_MINOR, ["Gone"]]]},
    }

    table = gate_table(facts, {"1.25+kep1": {"Kept": ["Alpha", 1, 0]}})

    assert table["gates"]["Kept"] == {
        "specs": [[33, "Alpha", 0, 0], [36, "GA", 1, 1]],
        "first": 33,
        "last": 99,
    }
    assert table["gates"]["Gone"] == {"specs": [[33, "Beta", 1, 0]], "first": 33, "last": 34}
    assert table["gates"]["AllAlpha"] == {"specs": [[0, "Alpha", 0, 0]], "first": 0, "last": 99}
    assert table["dependencies"] == facts["dependencies"]
    assert table["previews"] == {"1.25+kep1": {"Kept": ["Alpha", 1, 0]}}


def test_a_gate_that_comes_again_is_refused() -> None:
    """A minor that lacks a gate between two that have it is a mistake in the facts."""
    spans = {"Again": [[33, 34, "Alpha", 0, 0], [36, 36, "Alpha", 0, 0]]}

    with pytest.raises(ValueError, match=r"^Again goes after 1\.34 and comes again in 1\.36$"):
        gate_table({"gates": spans, "dependencies": {}}, {})
