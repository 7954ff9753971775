"""What is particular to the built-in kinds: the one place that says which module has it.

A module is imported with the first of its kinds that somebody asks for: all of them together take longer to
import than the rest of the server.
"""

from functools import cache
from importlib import import_module

from kubeskew.apimachinery.errors import GroupResource
from kubeskew.apiserver.registry.strategy import Strategy

# Group → the modules whose tables STRATEGIES have kinds of it.
MODULES: dict[str, tuple[str, ...]] = {
    "": ("core", "services", "pods", "replication", "limiting", "events"),
    "admissionregistration.k8s.io": ("registration",),
    "apiextensions.k8s.io": ("extensions",),
    "apiregistration.k8s.io": ("aggregation",),
    "apps": ("apps",),
    "autoscaling": ("policy",),
    "batch": ("batch",),
    "certificates.k8s.io": ("access", "trust"),
    "coordination.k8s.io": ("coordination",),
    "discovery.k8s.io": ("discovery",),
    "events.k8s.io": ("events",),
    "flowcontrol.apiserver.k8s.io": ("flow_control",),
    "internal.apiserver.k8s.io": ("others",),
    "networking.k8s.io": ("networking",),
    "node.k8s.io": ("classes",),
    "policy": ("policy",),
    "rbac.authorization.k8s.io": ("access",),
    "resource.k8s.io": ("dynamic_resources",),
    "scheduling.k8s.io": ("classes", "others"),
    "storage.k8s.io": ("classes", "storage"),
    "storagemigration.k8s.io": ("others",),
}


@cache
def strategy_of(kind: GroupResource) -> type[Strategy]:
    """The strategy of a kind; the general one if nothing is particular to it."""
    for name in MODULES.get(kind.group, ()):
        table: dict[GroupResource, type[Strategy]] = import_module(f"{__name__}.{name}").STRATEGIES
        if kind in table:
            return table[kind]
    return Strategy
