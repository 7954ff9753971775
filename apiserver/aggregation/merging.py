"""Merges the groups of remote servers into discovery.

Source: k8s.io/kube-aggregator/pkg/apiserver/{handler_apis,handler_discovery}.go, 1.36.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apiserver.aggregation.registered import Registered


class MergedResourceTable:
    """A resource table whose groups include the remote ones; their resources are not known to it."""

    def __init__(self, local: ResourceTable, registered: Registered) -> None:
        self._local = local
        self._registered = registered

    def groups(self) -> Sequence[tuple[str, Sequence[str]]]:
        return self._registered.groups(self._local.groups())

    def resource(self, group: str, version: str, plural: str) -> Resource | None:
        return self._local.resource(group, version, plural)

    def by_kind(self, group: str, version: str, kind: str) -> Resource | None:
        return self._local.by_kind(group, version, kind)

    def resources(self, group: str, version: str) -> Iterable[Resource]:
        local = dict(self._local.groups()).get(group, ())
        return self._local.resources(group, version) if version in local else ()


def complete(document: Object, registered: Registered, lists: dict[tuple[str, str], Object]) -> None:
    """Fill in what remote servers said of their resources: `lists` has their APIResourceLists."""
    for item in document["items"]:
        group = item["metadata"].get("name") or ""
        for entry in item["versions"]:
            remote = registered.remotes.get((group, entry["version"]))
            if remote is not None:
                listed = lists.get((group, entry["version"])) or {}
                entry["resources"] = _resources(listed)
                entry["freshness"] = "Current" if remote.available and listed else "Stale"


def _resources(listed: Object) -> list[Object]:
    found: dict[str, Object] = {}
    for resource in listed.get("resources") or ():
        name, _, sub = resource["name"].partition("/")
        kind = {
            "group": resource.get("group") or "",
            "version": resource.get("version") or "",
            "kind": resource["kind"],
        }
        if not sub:
            found[name] = _resource(resource, kind)
            continue
        parent = found.setdefault(name, {"resource": name})
        listed_under: list[Any] = parent.setdefault("subresources", [])
        listed_under.append({"subresource": sub, "responseKind": kind, "verbs": resource.get("verbs") or []})
    return list(found.values())


def _resource(one: Object, kind: Object) -> Object:
    entry: Object = {
        "resource": one["name"],
        "responseKind": kind,
        "scope": "Namespaced" if one.get("namespaced") else "Cluster",
        "singularResource": one.get("singularName") or "",
        "verbs": one.get("verbs") or [],
    }
    for name in ("shortNames", "categories"):
        if one.get(name):
            entry[name] = one[name]
    return entry
