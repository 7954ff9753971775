"""Discovery documents of built-in kinds."""

import pytest

from kubeskew.apimachinery.catalogue import catalogue_for
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.gates import FeatureGates
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.routes import discovery

TABLE = catalogue_for(Version(36))


def test_versions_and_groups() -> None:
    """/api lists v1; /apis lists the groups in upstream's order, each with its preferred version."""
    assert discovery.api_versions("127.0.0.1:6443") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"}],
    }

    groups = discovery.group_list(TABLE)["groups"]

    assert [group["name"] for group in groups][:4] == [
        "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io",
    ]  # fmt: skip
    assert {"name": "autoscaling", "versions": [
        {"groupVersion": "autoscaling/v2", "version": "v2"},
        {"groupVersion": "autoscaling/v1", "version": "v1"},
    ], "preferredVersion": {"groupVersion": "autoscaling/v2", "version": "v2"}} in groups  # fmt: skip


def test_one_group() -> None:
    """/apis/GROUP is the group with kind and apiVersion; an unknown one is 404."""
    assert discovery.group_document(TABLE, "apps")["kind"] == "APIGroup"
    assert discovery.group_document(TABLE, "apps")["preferredVersion"]["groupVersion"] == "apps/v1"
    for unknown in ("", "nothing.example.com"):
        with pytest.raises(StatusError) as raised:
            discovery.group_document(TABLE, unknown)
        assert raised.value.code == 404


def test_resource_list() -> None:
    """/apis/GROUP/VERSION lists resources and subresources, with the storage version's hash."""
    document = discovery.resource_list(TABLE, "apps", "v1")
    entries = {entry["name"]: entry for entry in document["resources"]}

    assert {key: document[key] for key in ("kind", "apiVersion", "groupVersion")} == {
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "apps/v1",
    }  # fmt: skip
    assert entries["deployments"] == {
        "name": "deployments",
        "singularName": "deployment",
        "namespaced": True,
        "kind": "Deployment",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["deploy"],
        "categories": ["all"],
        "storageVersionHash": "8aSe+NMegvE=",
    }
    assert entries["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    assert list(entries)[:3] == ["controllerrevisions", "daemonsets", "daemonsets/status"]
    with pytest.raises(StatusError):
        discovery.resource_list(TABLE, "apps", "v1beta1")


@pytest.mark.parametrize(
    ("group", "version", "plural", "expected"),
    [
        ("", "v1", "pods", "xPOwRZ+Yhw8="),
        ("", "v1", "events", "r2yiGXH7wu8="),
        ("events.k8s.io", "v1", "events", "r2yiGXH7wu8="),
        ("", "v1", "configmaps", "qFsyl6wFWjQ="),
        ("", "v1", "componentstatuses", ""),
        ("", "v1", "bindings", ""),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions", "jfWCUB31mvA="),
    ],
)
def test_storage_version_hash(group: str, version: str, plural: str, expected: str) -> None:
    """The hash is upstream's; what is not stored has none."""
    resource = TABLE.resource(group, version, plural)

    assert resource
    assert discovery.storage_version_hash(resource) == expected


def test_core_list_has_no_api_version() -> None:
    """The legacy group's list lacks apiVersion, as upstream's."""
    assert list(discovery.resource_list(TABLE, "", "v1")) == ["kind", "groupVersion", "resources"]


def test_aggregated() -> None:
    """The aggregated document nests versions, resources and subresources; /api holds the core group only."""
    legacy = discovery.aggregated(TABLE, legacy=True, beta=False)
    groups = discovery.aggregated(TABLE, legacy=False, beta=True)

    assert legacy["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert [item["metadata"] for item in legacy["items"]] == [{}]
    assert groups["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    apps = next(item for item in groups["items"] if item["metadata"]["name"] == "apps")
    deployments = apps["versions"][0]["resources"][2]
    assert deployments["responseKind"] == {"group": "", "version": "", "kind": "Deployment"}
    assert deployments["scope"] == "Namespaced"
    assert deployments["subresources"][0] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }


@pytest.mark.parametrize(
    ("minor", "offered"),
    [
        (26, ()),
        (27, ("v2beta1",)),
        (29, ("v2beta1",)),
        (30, ("v2", "v2beta1")),
        (32, ("v2", "v2beta1")),
        (33, ("v2",)),
        (36, ("v2",)),
    ],
)
def test_versions_of_the_aggregated_document(minor: int, offered: tuple[str, ...]) -> None:
    """Each release offers the versions of its time."""
    assert Features.of(FeatureGates(Version(minor))).requests.aggregated_discovery == offered
