"""Reads the stored APIServices: the server of each group version, and the order of groups.

Source: k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper, 1.36.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.apiextensions.ordering import version_order
from kubeskew.apiserver.caching.store_cache import DerivedFromStore
from kubeskew.apiserver.storage.interfaces import Store

RESOURCE = "apiservices.apiregistration.k8s.io"
GROUP = "apiregistration.k8s.io"
_OWN_PRIORITY = 20_000  # the aggregator's own group, which has no APIService


class Remote(NamedTuple):
    """A group version that a service answers for."""

    name: str
    group: str
    version: str
    spec: Object
    available: bool


@dataclass(frozen=True, slots=True)
class Registered:
    """All APIServices. `orders` has the order of each remote group's versions, the preferred first."""

    remotes: dict[tuple[str, str], Remote] = field(default_factory=dict)
    priorities: dict[str, int] = field(default_factory=dict)
    orders: dict[str, list[str]] = field(default_factory=dict)

    def groups(self, local: Sequence[tuple[str, Sequence[str]]]) -> Sequence[tuple[str, Sequence[str]]]:
        """Local groups and remote ones, by priority; a group may be partly remote."""
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
    """Returns the registrations by the APIServices in `store`."""
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
    """Decides whether the condition Available is true."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(
        condition.get("type") == "Available" and condition.get("status") == "True" for condition in conditions
    )
