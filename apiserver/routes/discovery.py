"""Discovery: documents of groups, versions and resources, one by one or all in one document.

Values are plain JSON, in Go's order of fields.

Source: k8s.io/apiserver/pkg/endpoints/discovery, 1.36.
"""

import base64
import hashlib
from typing import Any

from kubeskew.apimachinery.errors import unknown_path
from kubeskew.apimachinery.resources import Resource, ResourceTable, Subresource
from kubeskew.apiserver.aggregation.registered import MergedResourceTable, complete
from kubeskew.apiserver.http import media_types
from kubeskew.apiserver.http.media_types import Accepted
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.registry.requests import responses
from kubeskew.apiserver.routes.services import RouteServices
from kubeskew.apiserver.storage.encoding import dumps

Document = dict[str, Any]

AGGREGATED_GROUP = "apidiscovery.k8s.io"

# The hash is of the storage version in upstream's tables, which for this kind is one that is long gone.
_HASHED_AS = {("apiextensions.k8s.io", "CustomResourceDefinition"): "v1beta1"}
_KIND = "APIGroupDiscoveryList"


def group_version(group: str, version: str) -> str:
    """The core group has no slash: `v1`, but `apps/v1`."""
    return f"{group}/{version}" if group else version


def storage_version_hash(resource: Resource) -> str:
    """Storage migrators see by the hash that a kind's storage version changed; empty if the kind is not
    stored.
    """
    if not {"list", "watch"} <= resource.verbs:
        return ""
    storage = resource.storage
    version = _HASHED_AS.get((storage.group, storage.kind), storage.version)
    digest = hashlib.sha256(f"{storage.group}/{version}/{storage.kind}".encode()).digest()
    return base64.b64encode(digest[:8]).decode()


def api_versions(address: str) -> Document:
    """Serves `/api`; `address` is the host and port for clients."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": group_version(name, version), "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group_list(table: ResourceTable) -> Document:
    """Serves `/apis`."""
    groups = [_group(name, list(versions)) for name, versions in table.groups() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group_document(table: ResourceTable, name: str) -> Document:
    """Serves `/apis/GROUP`; raises the 404 StatusError if nothing of the group is served."""
    for served, versions in table.groups():
        if served == name and name:
            return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, list(versions))}
    raise unknown_path()


def resource_list(table: ResourceTable, group: str, version: str) -> Document:
    """Serves `/api/v1` or `/apis/GROUP/VERSION`; raises the 404 StatusError if it is not served."""
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
    """Sorted by name; a custom resource's stay in the order of its definition (status before scale)."""
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
    """Puts all groups into one document: `/api` if `legacy`, else `/apis`; as v2beta1 if `beta`, else as
    v2.
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


class Discovery:
    """Serves `/api`, `/apis` and below; documents follow the resource table as it is."""

    def __init__(self, services: RouteServices) -> None:
        self._services = services
        versions = services.features.requests.aggregated_discovery
        self._aggregates = {(AGGREGATED_GROUP, version, _KIND) for version in versions}

    async def serve(self, request: Request) -> Response | None:
        """None if there is no document at the path.

        A remote group version answers for itself.

        """
        table = self._table()
        match [part for part in request.path.split("/") if part]:
            case ["api"]:
                return self._root(request, legacy=True)
            case ["apis"]:
                return self._root(request, legacy=False)
            case ["apis", group] if group in dict(table.groups()):
                return self._document(request, group_document(table, group))
            case ["api", version] if version in dict(table.groups()).get("", ()):
                return self._document(request, resource_list(table, "", version))
            case ["apis", group, version] if self._is_remote(group, version):
                remote = self._services.registered.get().remotes[group, version]
                from kubeskew.apiserver.aggregation.proxy_handler import proxy  # it brings an HTTP client

                return await proxy(self._services, remote, request)
            case ["apis", group, version] if version in dict(table.groups()).get(group, ()):
                return self._document(request, resource_list(table, group, version))
            case _:
                return None

    def _table(self) -> ResourceTable:
        registered = self._services.registered.get()
        table = self._services.table.now()
        return MergedResourceTable(table, registered) if registered.remotes else table

    def _is_remote(self, group: str, version: str) -> bool:
        registered = self._services.registered.get()
        if (group, version) not in registered.remotes:
            return False
        return version not in dict(self._services.table.groups()).get(group, ())

    def _root(self, request: Request, *, legacy: bool) -> Response:
        form = media_types.negotiated(request.headers.get("accept", ""), self._aggregates)
        if form is not None and form.convert:
            return self._aggregated(request, form, legacy=legacy)
        if legacy:
            return self._document(request, api_versions(self._services.address))
        return self._document(request, group_list(self._table()))

    def _aggregated(self, request: Request, form: Accepted, *, legacy: bool) -> Response:
        self._services.metrics.aggregations.inc()
        beta = form.version == "v2beta1"
        document = aggregated(self._table(), legacy=legacy, beta=beta)
        registered = self._services.registered.get()
        if registered.remotes:
            complete(document, registered, self._services.remote_lists)
        tag = f'"{hashlib.sha512(dumps(document)).hexdigest().upper()}"'
        if request.headers.get("if-none-match", "") == tag:
            answer = Response(304, b"")
        else:
            answer = responses.document(document, form)
        kind = f"g={AGGREGATED_GROUP};v={form.version};as={_KIND}"
        answer.content_type = f"{form.media_type};{kind}"
        answer.headers += [("Etag", tag), ("Vary", "Accept"), ("Cache-Control", "public")]
        return answer

    def _document(self, request: Request, document: Document) -> Response:
        return responses.document(document, responses.form_of(request, media_types.NO_CONVERSIONS))
