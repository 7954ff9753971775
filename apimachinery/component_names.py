"""Decides which components of a cluster a name means.

A driver with a controller is two processes: its kubelet plugins', which the log knows as `driver/NAME`, and
its controller's, `driver-controller/NAME`. Whoever names `driver/NAME` means both; `driver-plugin/NAME` means
the plugins alone. A name without a slash is a kind and means all of it.
"""

from collections.abc import Iterable

DRIVER, PLUGIN, CONTROLLER = "driver", "driver-plugin", "driver-controller"
DRIVERS = frozenset({DRIVER, PLUGIN, CONTROLLER})
METRICS_SERVER = "metrics-server"
# What has no Kubernetes version: it stays as it is while the cluster changes, unless it is named itself.
UNVERSIONED = frozenset({*DRIVERS, METRICS_SERVER})
_OF_DRIVERS = {DRIVER: PLUGIN, CONTROLLER: CONTROLLER}  # kind of the process → by which it is named alone


def kind_of(component: str) -> str:
    """Returns the kind of a component: `apiserver-1` → `apiserver`, `kubelet/node-1` → `kubelet`."""
    name = component.partition("/")[0]
    return "apiserver" if name.startswith("apiserver") else name


def names_of(component: str) -> list[str]:
    """Returns the names by which a component can be meant, those that mean more components first.

    `driver-controller/d` → `driver`, `driver-controller`, `driver/d`, `driver-controller/d`.
    """
    kind, slash, name = component.partition("/")
    alone = _OF_DRIVERS.get(kind)
    if alone is None:
        return [*dict.fromkeys((kind_of(component), component))]
    return [DRIVER, alone, f"{DRIVER}{slash}{name}", f"{alone}{slash}{name}"]


def meant(name: str, components: Iterable[str]) -> list[str]:
    """Returns those of the components that a name means, in their order; none if it means nothing there."""
    return [component for component in components if name in names_of(component)]


def all_names(components: Iterable[str]) -> list[str]:
    """Returns the names that mean any of the components: the components, then what means them otherwise."""
    known = [*components]
    return [*dict.fromkeys([*known, *(name for component in known for name in names_of(component))])]
