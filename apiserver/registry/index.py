"""Imports the particulars of a built-in kind: its strategy, the cells of its table rows, its defaults.

Each group has a package of its own, whose `__init__.py` registers its kinds by name; a module is imported
with the first use of its contents, since all of them together take longer to import than the rest of the
server.
"""

from importlib import import_module
from typing import Any

# The package of each API group, named as upstream's folder below pkg/registry.
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


def registered(group: str, table: str, name: str) -> Any:
    """None means that the group registers nothing under that name.

    Tables are `STRATEGIES` (by resource), `CELLS` and `ROW_CONDITIONS` (by kind), `DEFAULTS` (by version and
    kind).
    """
    room = GROUP_PACKAGES.get(group)
    return None if room is None else registered_in(room, table, name)


def registered_in(room: str, table: str, name: str) -> Any:
    package = import_module(f"{__package__}.{room}")
    reference: str | None = getattr(package, table, {}).get(name)
    if reference is None:
        return None
    module, _, attribute = reference.partition(":")
    path = module if module.startswith("kubeskew.") else f"{package.__name__}.{module}"
    return getattr(import_module(path), attribute)
