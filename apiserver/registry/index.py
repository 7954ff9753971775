"""Finds what is particular to a built-in kind: its strategy, the cells of its table rows, its defaults.

Each group has a room of its own, whose `__init__.py` registers its kinds by name; a module is imported with
the first use of what it holds, since all of them together take longer to import than the rest of the server.
"""

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from kubeskew.apimachinery.errors import GroupKind, GroupResource
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.resources import Resource
from kubeskew.apiserver.registry.defaulting.context import Defaulter
from kubeskew.apiserver.registry.generic.strategy import Strategy
from kubeskew.apiserver.registry.tables.subjects import CellsOf

# The room of each API group, named as upstream's folder below pkg/registry.
GROUP_PACKAGES = {
    "": "core",
    "admissionregistration.k8s.io": "admissionregistration",
    "apiextensions.k8s.io": "apiextensions",
    "apiregistration.k8s.io": "apiregistration",
    "apps": "apps",
    "autoscaling": "autoscaling",
    "batch": "batch",
    "cdi.k8s.io": "cdi",
    "certificates.k8s.io": "certificates",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "flowcontrol.apiserver.k8s.io": "flowcontrol",
    "internal.apiserver.k8s.io": "apiserverinternal",
    "networking.k8s.io": "networking",
    "node.k8s.io": "node",
    "policy": "policy",
    "rbac.authorization.k8s.io": "rbac",
    "resource.k8s.io": "resource",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
    "storagemigration.k8s.io": "storagemigration",
}
_ABSOLUTE = "kubeskew."
_TYPE_PREFIX = r"^io\.k8s\.(api\.|.*\.pkg\.apis\.)"  # before the group in OpenAPI names


@cache
def strategy_of(kind: GroupResource) -> type[Strategy]:
    """Returns the strategy of a kind; the general one if nothing is particular to it."""
    strategy: type[Strategy] = (
        _registered(GROUP_PACKAGES.get(kind.group), "STRATEGIES", kind.resource) or Strategy
    )
    return strategy


def strategies_of(resource: Resource) -> tuple[Strategy, Strategy]:
    """Returns the strategies of a resource and of its status, made for it alone."""
    if resource.custom:
        module = import_module(f"{__package__}.apiextensions.customresource.strategy")
        return module.InstanceStrategy(resource), module.InstanceStatusStrategy(resource)
    strategy = strategy_of(resource.group_resource)()
    return strategy, strategy.status()


@cache
def cells_of(kind: GroupKind) -> CellsOf | None:
    """Returns what makes the cells of a kind's table rows, None if it has a name and an age only."""
    cells: CellsOf | None = _registered(GROUP_PACKAGES.get(kind.group), "CELLS", kind.kind)
    return cells


@cache
def row_conditions_of(kind: GroupKind) -> Callable[[Object], list[Object]]:
    """Returns what makes the conditions of a kind's table rows; most kinds have none."""
    conditions: Callable[[Object], list[Object]] | None
    conditions = _registered(GROUP_PACKAGES.get(kind.group), "ROW_CONDITIONS", kind.kind)
    return conditions or (lambda _: [])


@cache
def defaulter_of(type_name: str) -> Defaulter | None:
    """Returns what sets the defaults of a type, by its OpenAPI name (`io.k8s.api.core.v1.Pod`)."""
    room, _, name = re.sub(_TYPE_PREFIX, "", type_name).partition(".")
    defaulter: Defaulter | None = _registered(
        room if room in GROUP_PACKAGES.values() else None, "DEFAULTS", name
    )
    return defaulter


def _registered(room: str | None, table: str, name: str) -> Any:
    """Imports what a group's room registers under a name: None if it registers nothing."""
    if room is None:
        return None
    group = _room(room)
    reference: str | None = getattr(group, table, {}).get(name)
    if reference is None:
        return None
    module, _, attribute = reference.partition(":")
    path = module if module.startswith(_ABSOLUTE) else f"{group.__name__}.{module}"
    return getattr(import_module(path), attribute)


def _room(room: str) -> ModuleType:
    return import_module(f"{__package__}.{room}")
