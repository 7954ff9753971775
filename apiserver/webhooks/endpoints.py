"""Resolves the address of a Service to an address on this machine.

Source: k8s.io/apiserver/pkg/util/proxy/proxy.go (ResolveCluster, ResolveEndpoint), 1.36. A service is
reached in one of four ways: the server's option, an annotation of the Service, an ExternalName, or an
endpoint on a loopback address. Any other is reached at its cluster IP if pods have a network; else it is
refused like an address behind which there is nobody.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import NetworkAgent, is_of_cluster
from kubeskew.apiserver.storage.records import Entry, Key, Page
from kubeskew.apiserver.unreadable import object_of

ANNOTATION = "apiserver.kubeskew.io/local-address"  # HOST:PORT, for any port asked for
_SLICES = "endpointslices.discovery.k8s.io"
_SERVICE_NAME = "kubernetes.io/service-name"


class ResolutionError(Exception):
    """The service leads nowhere; the text is upstream's."""


class Address(NamedTuple):
    host: str
    port: int


class Entries(Protocol):
    """The part of a `Store` that finds services and their endpoints."""

    def get(self, key: Key) -> Entry | None: ...

    def list(self, resource: str, namespace: str | None = None) -> Page: ...


class ServiceResolver:
    """Finds services in the store; `fixed` are the addresses of `NAMESPACE/NAME` given by option."""

    def __init__(self, store: Entries, fixed: Mapping[str, str], network: NetworkAgent | None = None) -> None:
        """`network` is that of the pods, if they have one."""
        self._store = store
        self._network = network
        self._fixed = {name: parse_address(address) for name, address in fixed.items()}

    def resolve(self, namespace: str, name: str, port: int) -> Address:
        """`port` is the service's; raises ResolutionError."""
        fixed = self._fixed.get(f"{namespace}/{name}")
        if fixed is not None:
            return fixed
        service = self._get("services", namespace, name)
        if service is None:
            raise ResolutionError(f'service "{name}" not found')
        annotated = (service["metadata"].get("annotations") or {}).get(ANNOTATION)
        if annotated:
            return parse_address(annotated)
        spec = service.get("spec") or {}
        if spec.get("type") == "ExternalName":
            return Address(spec.get("externalName") or "", port)
        wanted = next(
            (service_port for service_port in spec.get("ports") or () if service_port.get("port") == port),
            None,
        )
        if wanted is None:
            raise ResolutionError(f'no service port {port} found for service "{name}"')
        for address in self._endpoints(namespace, name, wanted.get("name") or ""):
            if _is_loopback(address.host):
                return address
        cluster_ip = spec.get("clusterIP") or ""
        if cluster_ip in {"", "None"}:
            raise ResolutionError(f'no endpoints available for service "{name}"')
        if self._network is not None:
            return Address(cluster_ip, port)
        raise ResolutionError(f"dial tcp {cluster_ip}:{port}: connect: connection refused")

    def network_of(self, host: str) -> NetworkAgent | None:
        """The network in which an address is to be dialled; None for the machine's own."""
        return self._network if is_of_cluster(host) else None

    def lookup(self, host: str, port: int) -> Address | None:
        """None for hosts other than `NAME.NAMESPACE.svc`; raises ResolutionError."""
        parts = host.split(".")
        if len(parts) == 3 and parts[2] == "svc":
            return self.resolve(parts[1], parts[0], port)
        return None

    def has_endpoints(self, namespace: str, name: str, port_name: str) -> bool:
        """Only ready endpoints count."""
        return any(True for _ in self._endpoints(namespace, name, port_name))

    def knows_endpoints(self, namespace: str, name: str) -> bool:
        if self._get("endpoints", namespace, name) is not None:
            return True
        return any(True for _ in self._slices(namespace, name))

    def is_local(self, namespace: str, name: str) -> bool:
        """The address comes from an option or an annotation, so endpoints do not matter."""
        if f"{namespace}/{name}" in self._fixed:
            return True
        service = self._get("services", namespace, name) or {"metadata": {}}
        return ANNOTATION in (service["metadata"].get("annotations") or {})

    def service(self, namespace: str, name: str) -> Object | None:
        return self._get("services", namespace, name)

    def _get(self, resource: str, namespace: str, name: str) -> Object | None:
        entry = self._store.get(Key(resource, namespace, name))
        return object_of(entry) if entry else None

    def _endpoints(self, namespace: str, name: str, port_name: str) -> Iterator[Address]:
        endpoints = self._get("endpoints", namespace, name) or {}
        for subset in endpoints.get("subsets") or ():
            for port in _ports(subset, port_name):
                yield from (Address(address["ip"], port) for address in subset.get("addresses") or ())
        for part in self._slices(namespace, name):
            for port in _ports(part, port_name):
                yield from (Address(ip, port) for ip in _ready(part))

    def _slices(self, namespace: str, name: str) -> Iterator[Object]:
        for entry in self._store.list(_SLICES, namespace).entries:
            part: Object = object_of(entry)
            if (part["metadata"].get("labels") or {}).get(_SERVICE_NAME) == name:
                yield part


def parse_address(text: str) -> Address:
    """The form is `HOST:PORT`; raises ResolutionError."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise ResolutionError(f"dial tcp: address {text}: missing port in address")
    return Address(host.strip("[]"), int(port))


def _ports(holder: Mapping[str, Any], name: str) -> Iterator[int]:
    for port in holder.get("ports") or ():
        if (port.get("name") or "") == name and port.get("port"):
            yield int(port["port"])


def _ready(part: Object) -> Iterator[str]:
    for endpoint in part.get("endpoints") or ():
        if (endpoint.get("conditions") or {}).get("ready") is not False:
            yield from endpoint.get("addresses") or ()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
