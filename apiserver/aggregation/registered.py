"""Reads the stored APIServices: servers of group versions, the order of groups, and their part of discovery.

Sources: k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper, 1.36;
k8s.io/kube-aggregator/pkg/apiserver/{handler_apis,handler_discovery}.go, 1.36.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kubeskew.apimachinery.conditions import is_condition_true
from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource, ResourceTable
from kubeskew.apiserver.apiextensions.table import ComposedTable, version_order
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.webhooks.endpoints import ServiceResolver

RESOURCE = "apiservices.apiregistration.k8s.io"
GROUP = "apiregistration.k8s.io"
_OWN_PRIORITY = 20_000  # the aggregator's own group, which has no APIService


class Remote(NamedTuple):
    name: str
    group: str
    version: str
    spec: Object
    available: bool


@dataclass(frozen=True, slots=True)
class Registered:
    """`orders` has the versions of each remote group, the preferred first."""

    remotes: dict[tuple[str, str], Remote] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)

    def groups(self, local: Sequence[tuple[str, Sequence[str]]]) -> Sequence[tuple[str, Sequence[str]]]:
        if not self.remotes:
            return local
        versions = {group: list(listed) for group, listed in local}
        for group, order in self.orders.items():
            known = versions.setdefault(group, [])
            known += [version for version in order if version not in known]
        places = {group: position for position, (group, _) in enumerate(local)}

        def rank(item: tuple[str, list[str]]) -> tuple[int, int, str]:
            group = item[0]
            priority = _OWN_PRIORITY if group == GROUP else self.priorities.get(group, 1000)
            return -priority, places.get(group, len(places)), group

        return sorted(versions.items(), key=rank)


def registered(store: Store) -> DerivedFromStore[Registered]:
    return DerivedFromStore(store, [RESOURCE], _make)


def _make(services: list[Object]) -> Registered:
    remotes: dict[tuple[str, str], Remote] = {}
    priorities: dict[str, int] = {}
    ranked: dict[str, list[tuple[int, tuple[int, int, int, str], str]]] = {}
    for obj in services:
        spec = obj.get("spec") or {}
        group, version = spec.get("group") or "", spec.get("version") or ""
        priority = spec.get("groupPriorityMinimum") or 0
        priorities[group] = max(priorities.get(group, 0), priority)
        if spec.get("service") is None:
            continue
        name = obj["metadata"]["name"]
        remotes[group, version] = Remote(name, group, version, spec, is_available(obj))
        rank = -(spec.get("versionPriority") or 0), version_order(version), version
        ranked.setdefault(group, []).append(rank)
    return Registered(
        remotes, priorities, {group: [entry[2] for entry in sorted(them)] for group, them in ranked.items()}
    )


def is_available(obj: Object) -> bool:
    return is_condition_true(obj, "Available")


class AggregationServices(Protocol):
    """Handlers find and call other servers through this."""

    environment: Environment
    features: Features
    table: ComposedTable
    store: Store
    registered: DerivedFromStore[Registered]
    remote_lists: dict[tuple[str, str], Object]
    service_resolver: ServiceResolver
    front_proxy_client: tuple[str, str] | None


class MergedResourceTable:
    """Groups include the remote ones, whose resources this table does not know."""

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
    """Adds the resources of remote servers to a discovery document; `lists` has their APIResourceLists."""
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
