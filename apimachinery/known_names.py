"""Resolves the names that users give: components of a cluster, or the known name that was misspelt."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

DRIVER, PLUGIN, CONTROLLER = "driver", "driver-plugin", "driver-controller"
DRIVERS = frozenset({DRIVER, PLUGIN, CONTROLLER})
METRICS_SERVER = "metrics-server"
NETWORK = "network"
# What has no Kubernetes version: it stays as it is while the cluster changes, unless it is named itself.
UNVERSIONED = frozenset({*DRIVERS, METRICS_SERVER, NETWORK})
_OF_DRIVERS = {DRIVER: PLUGIN, CONTROLLER: CONTROLLER}  # kind of the process → by which it is named alone


def did_you_mean(name: str, known: Iterable[str], prefix: str = "") -> str:
    """`; did you mean NAME?`, or an empty text if no known name is near."""
    names = {str(candidate).lower(): str(candidate) for candidate in known}
    near = get_close_matches(name.lower(), names, n=1)
    return f"; did you mean {prefix}{names[near[0]]}?" if near else ""


def some_of(names: Sequence[str], most: int = 8) -> str:
    """Joins names for one line: the first `most`, and the number of the others."""
    left = len(names) - most
    return ", ".join(names) if left <= 1 else f"{', '.join(names[:most])} and {left} more"


def kind_of(component: str) -> str:
    """`apiserver-1` is an `apiserver`, `kubelet/node-1` a `kubelet`."""
    name = component.partition("/")[0]
    return "apiserver" if name.startswith("apiserver") else name


def names_of(component: str) -> list[str]:
    """Names for a component, those that fit more components first.

    `driver-controller/d` → `driver`, `driver-controller`, `driver/d`, `driver-controller/d`.
    """
    kind, slash, name = component.partition("/")
    alone = _OF_DRIVERS.get(kind)
    if alone is None:
        return [*dict.fromkeys((kind_of(component), component))]
    return [DRIVER, alone, f"{DRIVER}{slash}{name}", f"{alone}{slash}{name}"]


def meant(name: str, components: Iterable[str]) -> list[str]:
    """Keeps the order of the components; empty if the name fits none of them."""
    return [component for component in components if name in names_of(component)]


def all_names(components: Iterable[str]) -> list[str]:
    """Names that fit any of the components: their own first, then the others."""
    known = [*components]
    return [*dict.fromkeys([*known, *(name for component in known for name in names_of(component))])]
