"""Makes discovery documents of a resource table: in four plain shapes and aggregated.

Source: k8s.io/apiserver/pkg/endpoints/discovery, 1.36. Values are plain JSON, in Go's order of fields.
"""

import base64
import hashlib
from typing import Any

from kubeskew.apimachinery.errors import unknown_path
from kubeskew.apimachinery.resources import Resource, ResourceTable, Subresource

Document = dict[str, Any]

AGGREGATED_GROUP = "apidiscovery.k8s.io"

# The hash is of the storage version in upstream's tables, which for this kind is one that is long gone.
_HASHED_AS = {("apiextensions.k8s.io", "CustomResourceDefinition"): "v1beta1"}


def group_version(group: str, version: str) -> str:
    """`apps/v1`; `v1` in the core group."""
    return f"{group}/{version}" if group else version


def storage_version_hash(resource: Resource) -> str:
    """Returns the hash by which storage migrators see that a kind's storage version changed; empty if not
    stored.
    """
    if not {"list", "watch"} <= resource.verbs:
        return ""
    storage = resource.storage
    version = _HASHED_AS.get((storage.group, storage.kind), storage.version)
    digest = hashlib.sha256(f"{storage.group}/{version}/{storage.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def api_versions(address: str) -> Document:
    """`/api`; `address` is the host and port that clients are told to use."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": group_version(name, version), "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group_list(table: ResourceTable) -> Document:
    """`/apis`."""
    groups = [_group(name, list(versions)) for name, versions in table.groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(table: ResourceTable, name: str) -> Document:
    """`/apis/GROUP`; raises the 404 StatusError if nothing of the group is served."""
    for served, versions in table.groups():
        if served == name and name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}
    raise unknown_path()


def resource_list(table: ResourceTable, group: str, version: str) -> Document:
    """`/api/v1` or `/apis/GROUP/VERSION`; raises the 404 StatusError if it is not served."""
    if version not in dict(table.groups()).get(group, ()):
        raise unknown_path()
    entries: list[Document] = []
    for resource in table.resources(group, version):
        entries.append(_resource_entry(resource))
        entries += [_subresource_entry(resource, subresource) for subresource in _subresources(resource)]
    document: Document = {"kind": "APIResourceList"}
    if group:
        document["apiVersion"] = "v1"
    return document | {"groupVersion": group_version(group, version), "resources": entries}


def _subresources(resource: Resource) -> list[Subresource]:
    """By name; a custom resource's in the order of its definition (status before scale)."""
    listed = list(resource.subresources.values())
    return listed if resource.custom else sorted(listed, key=lambda one: one.name)


def _resource_entry(resource: Resource) -> Document:
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource.verbs, resource.custom),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    version_hash = storage_version_hash(resource)
    if version_hash:
        entry["storageVersionHash"] = version_hash
    return entry


def _subresource_entry(resource: Resource, subresource: Subresource) -> Document:
    entry: Document = {
        "name": f"{resource.plural}/{subresource.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
    }
    gvk = subresource.gvk
    if (gvk.group, gvk.version) != (resource.group, resource.version):
        entry |= {"group": gvk.group, "version": gvk.version}
    return entry | {"kind": gvk.kind, "verbs": _verbs(subresource.verbs, False)}


# Custom resources announce their verbs in this order, built-in ones sorted.
_CUSTOM_ORDER = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")


def _verbs(verbs: frozenset[str], custom: bool) -> list[str]:
    return [verb for verb in _CUSTOM_ORDER if verb in verbs] if custom else sorted(verbs)


def aggregated(table: ResourceTable, legacy: bool, beta: bool) -> Document:
    """Returns all groups in one document: `/api` if `legacy`, else `/apis`; as v2beta1 if `beta`,
    else as v2.
    """
    items = [
        {
            "metadata": {"name": name} if name else {},
            "versions": [_aggregated_version(table, name, version) for version in versions],
        }
        for name, versions in table.groups()
        if legacy == (not name)
    ]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"{AGGREGATED_GROUP}/{'v2beta1' if beta else 'v2'}",
        "metadata": {},
        "items": items,
    }


def _aggregated_version(table: ResourceTable, group: str, version: str) -> Document:
    resources = [_aggregated_resource(resource) for resource in table.resources(group, version)]
    return {"version": version, "resources": resources, "freshness": "Current"}


def _response_kind(resource: Resource, group: str, version: str, kind: str) -> Document:
    if not resource.custom and (group, version) == (resource.group, resource.version):
        group = version = ""
    return {"group": group, "version": version, "kind": kind}


def _aggregated_resource(resource: Resource) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource, *resource.gvk),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource.verbs, resource.custom),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if resource.subresources:
        entry["subresources"] = [
            {
                "subresource": subresource.name,
                "responseKind": _response_kind(resource, *subresource.gvk),
                "verbs": _verbs(subresource.verbs, False),
            }
            for subresource in _subresources(resource)
        ]
    return entry
