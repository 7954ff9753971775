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

# Packages with the kinds of an earlier generation, by the package of their group. Nothing else names them:
# one that is deleted is taken out here.
EARLIER_GENERATIONS = {"resource": ("resource.classic", "resource.semantic")}


def registered(group: str, table: str, *names: str) -> Any:
    """The entry of the first name that the group registers, None if there is none.

    Tables are `STRATEGIES` (by resource), `CELLS` and `ROW_CONDITIONS` (by kind), `DEFAULTS` (by version and
    kind), `POD_CLAIM_TEMPLATES`. A strategy or cells of one version alone have that version before their name
    (`v1alpha2.resourceclaims`), strategies of a preview release its name.
    """
    room = GROUP_PACKAGES.get(group)
    if room is None:
        return None
    found = (registered_in(room, table, name) for name in names)
    return next((entry for entry in found if entry is not None), None)


def registered_in(room: str, table: str, name: str) -> Any:
    for folder in (room, *EARLIER_GENERATIONS.get(room, ())):
        package = import_module(f"{__package__}.{folder}")
        reference: str | None = getattr(package, table, {}).get(name)
        if reference is not None:
            module, _, attribute = reference.partition(":")
            path = module if module.startswith("kubeskew.") else f"{package.__name__}.{module}"
            return getattr(import_module(path), attribute)
    return None
