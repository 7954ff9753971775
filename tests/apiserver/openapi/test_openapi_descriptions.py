"""Documents that an imported release has for itself: prose and facts of OpenAPI, texts of columns."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest

from kubeskew.apimachinery.catalogue import Catalogue
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver import openapi
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.openapi.descriptions import descriptions_of
from kubeskew.apiserver.openapi.facts import facts_of

IMPORTED, SHIPPED = Version(36, "", 1), Version(36)
POD, META = "io.k8s.api.core.v1.Pod", "io.k8s.apimachinery.pkg.apis.meta.v1."
PATH = "/api/v1/namespaces/{namespace}/pods/{name}"
FACTS = {
    "origin": {"1.36": "1.36+mine"},
    "registered": {"v1": 1},
    "returned": {},
    "order": {},
    "bare": {},
    "extensions": {POD: {"x-mine": True}},
    "enums": {},
    "shared": {"": {"continue": "xyz"}, "path": {"namespace": "abc"}},
}
DESCRIPTIONS: dict[str, Any] = {
    "definitions": {
        POD: {"doc": "Pod runs.", "fields": {"spec": "What to run."}},
        f"{POD}List": {"doc": "PodList lists.", "fields": {"items": "The pods."}},
        f"{META}Time": {"doc": "Time is a time."},
    },
    "operations": {"readCoreV1NamespacedPod": "read the specified Pod"},
    "parameters": {"name": "name of the {kind}", "namespace-abc": "object name", "continue-xyz": "Go on."},
    "token": "A token",
}
COLUMNS = {"/Pod": {"Ready": "How many are ready."}}


CACHES = (descriptions_of, facts_of, importlib.import_module("kubeskew.apiserver.openapi.v3")._data_digest)


def forget() -> None:
    for cache in CACHES:
        cache.cache_clear()


@pytest.fixture(autouse=True)
def _imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    documents = {"openapi.json": FACTS, "descriptions.json": DESCRIPTIONS, "columns.json": COLUMNS}

    def document(version: Version, name: str) -> dict[str, Any] | None:
        return documents[name] if version == IMPORTED else None

    forget()
    monkeypatch.setattr(Version, "document", document)
    yield
    forget()


def documents(version: Version) -> tuple[dict[str, Any], dict[str, Any]]:
    """The whole of v2, and the core group's document of v3."""
    gates = FeatureGates(version)
    table, features = Catalogue(version, gates), Features.of(gates).documents
    modern = openapi.v3(table, features, "api/v1")
    assert modern is not None
    return openapi.v2(table, features), modern


def test_prose_of_an_imported_release() -> None:
    """Definitions, fields, operations, parameters and the token have the tree's texts, in v2 and v3."""
    old, new = documents(IMPORTED)

    for schemas in (old["definitions"], new["components"]["schemas"]):
        assert schemas[POD]["description"] == "Pod runs."
        assert schemas[POD]["properties"]["spec"]["description"] == "What to run."
        assert "description" not in schemas[POD]["properties"]["status"]
        assert schemas[f"{POD}List"]["properties"]["items"]["description"] == "The pods."
        assert schemas[f"{META}Time"]["description"] == "Time is a time."
        assert "description" not in schemas[f"{META}ObjectMeta"]["properties"]["name"]
    shared = {"in": "path", "name": "namespace", "required": True, "type": "string", "uniqueItems": True}
    assert old["parameters"]["namespace-abc"] == {**shared, "description": "object name"}
    assert old["parameters"]["continue-xyz"]["description"] == "Go on."
    for made in (old, new):
        assert made["paths"][PATH]["get"]["description"] == "read the specified Pod"
        named = [each for each in made["paths"][PATH]["parameters"] if each.get("name") == "name"]
        assert named[0]["description"] == "name of the Pod"
    assert old["securityDefinitions"]["BearerToken"]["description"] == "A token"
    assert new["components"]["securitySchemes"]["BearerToken"]["description"] == "A token"


def test_facts_of_an_imported_release() -> None:
    """The facts of the tree's documents hold for that release instead of the shipped ones."""
    old, new = documents(IMPORTED)
    shipped, _ = documents(SHIPPED)

    assert old["definitions"][POD]["x-mine"] is new["components"]["schemas"][POD]["x-mine"] is True
    assert "x-mine" not in shipped["definitions"][POD]
    assert facts_of(IMPORTED).registered == (("", "v1"),)
    assert len(facts_of(SHIPPED).registered) > 1


def test_shipped_releases_have_no_prose_of_upstream() -> None:
    """Next to an imported release of its minor, a shipped one still has our own texts alone."""
    for schemas in (documents(SHIPPED)[0]["definitions"], documents(SHIPPED)[1]["components"]["schemas"]):
        assert "description" not in schemas[POD]
        assert schemas[f"{META}ObjectMeta"]["properties"]["name"]["description"].startswith("The name, which")


def test_hashes_follow_the_prose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients that keep documents by their hash ask again once a release was imported with other texts."""
    gates = FeatureGates(IMPORTED)
    table, features = Catalogue(IMPORTED, gates), Features.of(gates).documents
    before = openapi.v3_hash(table, features, "api/v1")
    forget()
    monkeypatch.setitem(DESCRIPTIONS, "token", "Another token")

    assert openapi.v3_hash(table, features, "api/v1") != before


def test_columns_of_an_imported_release() -> None:
    """Tables describe the columns for which the tree has a text."""
    of_pods = {
        version: Catalogue(version, FeatureGates(version)).resource("", "v1", "pods")
        for version in (IMPORTED, SHIPPED)
    }

    for version, resource in of_pods.items():
        assert resource is not None
        texts = {column.name: column.description for column in resource.columns}
        assert texts["Status"] == ""
        assert texts["Ready"] == ("How many are ready." if version == IMPORTED else "")
