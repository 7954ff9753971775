"""Serves the proxy subresource of pods, services and nodes.

Source: pkg/registry/core/{pod,service,node}/rest (proxy.go, subresources.go), strategy.go
(ResourceLocation) and k8s.io/apimachinery/pkg/util/net/port_split.go, 1.36. Where pods have no network,
nothing routes their addresses: what goes to one is asked of its node's kubelet.
"""

import ipaddress
import re
from typing import NamedTuple
from urllib.parse import quote, urlencode

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import GroupResource, StatusError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.network_agent import is_of_cluster, is_of_node
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.nodes.connections import pod_of
from kubeskew.apiserver.nodes.proxied_pages import Links, forwarded_uri, with_proxied_links
from kubeskew.apiserver.nodes.proxy import Address, is_upgrade, pass_on, pass_upgrade
from kubeskew.apiserver.registry.requests.scope import RequestServices, Scope, admit_connection
from kubeskew.apiserver.webhooks.client import trusting_all

_KINDS = {"pods": "PodProxyOptions", "services": "ServiceProxyOptions", "nodes": "NodeProxyOptions"}
# As upstream's proxyMethods.
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_LAST_PORT = 65535
_PORTS = {"https": "443"}
_NOBODY_LISTENS = 502  # said by a kubelet of a fake pod's port


class ProxyTarget(NamedTuple):
    """`scheme:name:port`, as a path names the target of a proxy; the parts may be empty."""

    scheme: str
    name: str
    port: str

    @classmethod
    def of(cls, text: str) -> "ProxyTarget | None":
        """None means that the text has another form (SplitSchemeNamePort)."""
        parts = text.split(":")
        if len(parts) == 1:
            found = cls("", text, "")
        elif len(parts) == 2:
            found = cls("", parts[0], parts[1])
        elif len(parts) == 3:
            found = cls(*parts)
        else:
            return None
        return found if found.name and found.scheme in {"", "http", "https"} else None


async def proxy(request: Request, scope: Scope) -> Response:
    """The backend's answer is passed on; 503 where there is no backend."""
    info, plural = request.info, scope.resource.storage_resource
    path = "/".join(info.parts[3:])
    if path and request.path.endswith("/"):
        path += "/"
    options: Object = {"kind": _KINDS[plural], "apiVersion": "v1"}
    await admit_connection(request, scope, options | ({"path": path} if path else {}))
    wanted = ProxyTarget.of(info.name)
    if wanted is None:
        raise errors.bad_request(f'invalid {plural[:-1]} request "{info.name}"')
    await scope.services.store.refresh()
    address, prefix, shown = await _BACKENDS[plural](scope.services, info.namespace, wanted)
    query = urlencode([(name, value) for name, values in request.query.items() for value in values])
    suffix = f"?{query}" if query else ""
    bare = not path and not request.path.endswith("/")
    if bare and request.method in {"GET", "HEAD"} and not is_upgrade(request):
        return Response(301, b"", "text/plain; charset=utf-8", [("Location", f"{request.path}/{suffix}")])
    target = f"{prefix}/{quote(path, safe='/:@!$&()*+,;=~')}{suffix}"
    if is_upgrade(request):
        return await pass_upgrade(request, address, target)
    path_of_proxy = request.path.removesuffix(f"/{path}" if path else "/")
    forwarded = ("X-Forwarded-Uri", forwarded_uri(path_of_proxy, f"/{path}"))
    answer = await pass_on(request, address, target, [forwarded])
    if answer.status == _NOBODY_LISTENS and prefix:
        answer.close()
        message = f"error trying to reach service: dial tcp {shown}: connect: connection refused"
        raise StatusError(503, "ServiceUnavailable", message)
    return await with_proxied_links(answer, Links(path_of_proxy, shown, request.headers.get("host", "")))


# -- backends: where, what stands before the path, and the address that upstream would dial

Backend = tuple[Address, str, str]


async def _pod(services: RequestServices, namespace: str, wanted: ProxyTarget) -> Backend:
    pod = await pod_of(services, namespace, wanted.name)
    port = wanted.port or _first_port(pod)
    if not (pod.get("status") or {}).get("podIP"):
        raise errors.bad_request("address not allowed")
    return _inside(services, pod, port or _PORTS.get(wanted.scheme, "80"), wanted.scheme)


def _first_port(pod: Object) -> str:
    for container in pod["spec"].get("containers") or []:
        for port in container.get("ports") or []:
            return str(port["containerPort"])
    return ""


def _inside(services: RequestServices, pod: Object, port: str, scheme: str) -> Backend:
    metadata, ip = pod["metadata"], (pod.get("status") or {}).get("podIP", "")
    network = services.nodes.network
    if network is not None and (is_of_cluster(ip) or is_of_node(ip)):
        context = trusting_all() if scheme == "https" else None
        found = Address(ip, _port_number(port), context, network=network)
        return found, "", str(found)
    address = services.nodes.address(services, pod["spec"].get("nodeName") or "")
    prefix = f"/containerPort/{metadata['namespace']}/{metadata['name']}/{quote(port)}"
    return address, prefix, f"{ip}:{port}"


def _port_number(port: str) -> int:
    """Raises 503."""
    if not re.fullmatch(r"\d{1,5}", port) or int(port) > _LAST_PORT:
        why = f"dial tcp: lookup tcp/{port}: unknown port"
        raise errors.service_unavailable(f"error trying to reach service: {why}")
    return int(port)


async def _service(services: RequestServices, namespace: str, wanted: ProxyTarget) -> Backend:
    name, port = wanted.name, wanted.port
    service = services.core_object("services", namespace, name)
    if re.fullmatch(r"[+-]?\d+", port):
        if service is None:
            raise errors.not_found(GroupResource("", "services"), name)
        found = next(
            (
                service_port
                for service_port in service["spec"].get("ports") or []
                if service_port["port"] == int(port)
            ),
            None,
        )
        if found is None:
            raise errors.service_unavailable(f'no service port {int(port)} found for service "{name}"')
        port = found.get("name") or ""
    endpoints = services.core_object("endpoints", namespace, name)
    if endpoints is None:
        # Upstream's store names the resource of the request.
        raise errors.not_found(GroupResource("", "services"), name)
    if not endpoints.get("subsets"):
        raise errors.service_unavailable(f'no endpoints available for service "{name}"')
    for subset in endpoints["subsets"]:
        for subset_port in subset.get("ports") or []:
            if (subset_port.get("name") or "") != port:
                continue
            for address in subset.get("addresses") or []:
                pod = _pod_behind(services, namespace, address)
                if pod is not None:
                    return _inside(services, pod, str(subset_port["port"]), wanted.scheme)
    joined = ":".join(part for part in wanted if part)
    raise errors.service_unavailable(f'no endpoints available for service "{joined}"')


def _pod_behind(services: RequestServices, namespace: str, address: Object) -> Object | None:
    """An endpoint leads to a pod if the pod is one of the namespace and has that address.

    Endpoints are written by users: without the check they could send the server anywhere.
    """
    target = address.get("targetRef") or {}
    if (target.get("namespace") or "") != namespace:
        return None
    pod = services.core_object("pods", namespace, target.get("name") or "")
    known = ((pod or {}).get("status") or {}).get("podIPs") or ()
    return pod if any(ready.get("ip") == address["ip"] for ready in known) else None


async def _node(services: RequestServices, _namespace: str, wanted: ProxyTarget) -> Backend:
    address = services.nodes.address(services, wanted.name)
    if wanted.port in {"", str(address.port)}:
        return address, "", str(address)
    network = services.nodes.network if is_of_node(address.host) else None
    if network is None and _is_local(address.host):
        raise errors.bad_request("address not allowed")
    context = trusting_all() if network is not None and wanted.scheme == "https" else None
    found = Address(address.host, _port_number(wanted.port), context, network=network)
    return found, "", str(found)


def _is_local(host: str) -> bool:
    """Addresses of the server's own machine, or link, are local (IsProxyableIP)."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return found.is_loopback or found.is_link_local or found.is_multicast or found.is_unspecified


_BACKENDS = {"pods": _pod, "services": _service, "nodes": _node}
