"""Computes the resources that a pod's containers need together and their ports, and recognises extended
resources, and pods that have ended and need none any more.

Extended resources are known from Kubernetes' own by their names.

Sources: k8s.io/component-helpers/resource/helpers.go (PodRequests), k8s.io/kubernetes/pkg/apis/core/v1/helper
(IsExtendedResourceName), pkg/scheduler/util (IsDRAExtendedResourceName),
pkg/api/v1/pod (IsPodTerminal), 1.36.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kubeskew.apimachinery import names
from kubeskew.apimachinery.memo import remembered
from kubeskew.apimachinery.quantity import Quantity

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # and the name of a DeviceClass: its implicit resource
REQUESTS = "requests."  # prefix of a resource in a quota
TERMINAL_PHASES = frozenset({"Succeeded", "Failed"})
_T = TypeVar("_T", int, Quantity)


def is_terminal(pod: Mapping[str, Any]) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL_PHASES


def is_native(name: str) -> bool:
    """Native resources are unprefixed, or of a domain below kubernetes.io."""
    return "/" not in name or "kubernetes.io/" in name


@remembered(4096)
def is_extended_resource(name: str) -> bool:
    """Device plugins may provide extended resources of containers (IsExtendedResourceName).

    The name must be qualified also with `requests.` before it, as quotas write it.
    """
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return not names.qualified_name(f"{REQUESTS}{name}")


def is_dra_extended_resource(name: str) -> bool:
    """DRA may provide a container's resource by an explicit or an implicit name."""
    return name.startswith(IMPLICIT) or is_extended_resource(name)


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Sidecars are init containers that are restartable: they keep running next to the regular ones."""
    return bool(container.get("restartPolicy") == "Always")


def needed_at_once(
    containers: Iterable[Mapping[str, _T]], init_containers: Iterable[tuple[bool, Mapping[str, _T]]]
) -> dict[str, _T]:
    """The most that is needed at any time, by resource.

    That is the sum of regular containers and sidecars, or the largest init container with the sidecars
    started before it. An init container is given as (True for a sidecar, its amounts).
    """
    total: dict[str, _T] = {}
    for amounts in containers:
        _add(total, amounts)
    sidecars: dict[str, _T] = {}
    peak: dict[str, _T] = {}
    for sidecar, amounts in init_containers:
        if sidecar:
            _add(total, amounts)
            _add(sidecars, amounts)
            _raise(peak, sidecars)
        else:
            step = dict(sidecars)
            _add(step, amounts)
            _raise(peak, step)
    _raise(total, peak)
    return total


def _add(total: dict[str, _T], more: Mapping[str, _T]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: dict[str, _T], least: Mapping[str, _T]) -> None:
    for name, amount in least.items():
        if name not in total or amount > total[name]:
            total[name] = amount


# --- ports of the node (pkg/scheduler/util/utils.go, GetHostPorts, and framework/types.go, HostPortInfo)

HostPort = tuple[str, str, int]  # address, protocol, port

_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared, not listened on: upstream's DefaultBindAllHostIP


def host_ports(spec: Mapping[str, Any], *, of_sidecars: bool = True) -> frozenset[HostPort]:
    """Ports that a pod's containers take of its node, by default with those of sidecars."""
    containers: Iterable[Mapping[str, Any]] = spec.get("containers") or ()
    sidecars = filter(is_sidecar, (of_sidecars and spec.get("initContainers")) or ())
    return frozenset(
        (port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])
        for container in (*containers, *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def conflicts(wanted: Iterable[HostPort], taken: Iterable[HostPort]) -> bool:
    """Two ports conflict if port and protocol are the same, and their addresses overlap."""
    used = list(taken)
    return any(
        (protocol, port) == (other_protocol, other_port)
        and (address == other_address or _ANY_ADDRESS in (address, other_address))
        for address, protocol, port in wanted
        for other_address, other_protocol, other_port in used
    )
