"""Finds the pods behind a service, and their ports. Pure functions.

Rules of k8s.io/endpointslice and k8s.io/kubernetes/pkg/controller/endpoint, 1.36.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.pod_resources import is_sidecar
from kubeskew.controllers.framework import pods


@dataclass(frozen=True, slots=True)
class Port:
    """A service's port as one pod has it."""

    name: str
    port: int
    protocol: str
    application: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Backend:
    """A pod behind a service.

    `ready`: takes traffic; `serving`: could, but may be terminating. `hostname`: its name below the
    service's, empty if the pod is not in the service's subdomain.
    """

    pod: Object
    hostname: str
    ports: tuple[Port, ...]
    ready: bool
    serving: bool
    terminating: bool

    @property
    def ip(self) -> str:
        ip: str = self.pod["status"]["podIP"]
        return ip

    @property
    def reference(self) -> Object:
        metadata = self.pod["metadata"]
        return {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }


def selector_of(service: Object) -> dict[str, str]:
    """Returns the service's selector; empty for services whose endpoints others write."""
    spec = service["spec"]
    selector: dict[str, str] = spec.get("selector") or {}
    return {} if spec.get("type") == "ExternalName" else selector


def is_headless(service: Object) -> bool:
    return bool(service["spec"].get("clusterIP") == "None")


def backends(
    service: Object, selected: Iterable[Object], *, overlooks_sidecars: bool = False
) -> list[Backend]:
    """Returns the selected pods with an address that have not ended, by name.

    `overlooks_sidecars`: the names of their ports are not known.
    """
    publish_all = bool(service["spec"].get("publishNotReadyAddresses"))
    found = []
    for pod in selected:
        if not pod.get("status", {}).get("podIP") or pods.is_terminal(pod):
            continue
        serving, terminating = pods.is_ready(pod), pods.is_terminating(pod)
        found.append(
            Backend(
                pod=pod,
                hostname=_hostname(service, pod),
                ports=_ports(service, pod, overlooks_sidecars),
                ready=publish_all or (serving and not terminating),
                serving=serving,
                terminating=terminating,
            )
        )
    return sorted(found, key=lambda one: one.pod["metadata"]["name"])


def _hostname(service: Object, pod: Object) -> str:
    name: str = pod["spec"].get("hostname", "")
    return name if pod["spec"].get("subdomain") == service["metadata"]["name"] else ""


def _ports(service: Object, pod: Object, overlooks_sidecars: bool) -> tuple[Port, ...]:
    """Returns the service's ports on the pod, without named ports that none of its containers has."""
    resolved = []
    for port in service["spec"].get("ports") or ():
        protocol = port.get("protocol", "TCP")
        sidecars = () if overlooks_sidecars else filter(is_sidecar, pod["spec"].get("initContainers") or ())
        number = _number(port, protocol, [*pod["spec"]["containers"], *sidecars])
        if number is not None:
            resolved.append(Port(port.get("name", ""), number, protocol, port.get("appProtocol")))
    return tuple(resolved)


def _number(port: Object, protocol: str, containers: Iterable[Object]) -> int | None:
    target = port.get("targetPort")
    if isinstance(target, int) and target:
        return target
    if not target:
        return int(port["port"])
    for container in containers:
        for container_port in container.get("ports") or ():
            if container_port.get("name") == target and container_port.get("protocol", "TCP") == protocol:
                return int(container_port["containerPort"])
    return None


def by_ports(found: Iterable[Backend]) -> dict[tuple[Port, ...], list[Backend]]:
    """Returns backends grouped by their ports."""
    groups: dict[tuple[Port, ...], list[Backend]] = {}
    for backend in found:
        groups.setdefault(backend.ports, []).append(backend)
    return groups
