"""Objects that a new cluster needs, and those that are made again whenever they are missing.

Objects that exist already are left alone.

Sources: k8s.io/kubernetes/pkg/controlplane/controller/clusterauthenticationtrust, 1.36; k8s.io/kubernetes
pkg/controlplane (controllers systemnamespaces, kubernetesservice) and pkg/registry/{scheduling,rbac}/rest,
1.36.
"""

import asyncio
import ipaddress
import itertools
import json
import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import orjson

from kubeskew.apimachinery.environment import Environment
from kubeskew.apimachinery.errors import StatusError, is_reason
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.security.pem import certificate_blocks
from kubeskew.apiserver.aggregation.local import built_in
from kubeskew.apiserver.authorization.default_roles import DefaultRoles, must_be_replaced, reconciled
from kubeskew.apiserver.fairness import defaults
from kubeskew.apiserver.features import Features
from kubeskew.apiserver.http.request import Handler, Request, RequestInfo, parse_info
from kubeskew.apiserver.options import ServerOptions
from kubeskew.apiserver.services import Services
from kubeskew.apiserver.storage.records import Key
from kubeskew.apiserver.unreadable import known_object
from kubeskew.apiserver.user import SERVER

NAME = "extension-apiserver-authentication"
_CLIENTS, _PROXIES = "client-ca-file", "requestheader-client-ca-file"
log = logging.getLogger(__name__)

NAMESPACES = ("kube-system", "kube-public", "kube-node-lease", "default")
_PRIORITIES = {
    "system-node-critical": (
        2000001000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2000000000,
        (
            "Used for system critical pods that must run in the cluster, but can be moved to another node "
            "if necessary."
        ),
    ),
}
_PORT_NAME = "https"
_ATTEMPTS = 3  # to write an object that other servers write, too
KEEPING_SECONDS = 10.0  # between two looks at objects that must exist
_NAMESPACE_TURNS = 6  # looks, of which the last also checks namespaces, flow schemas and priority levels


def data_of(options: ServerOptions, environment: Environment) -> dict[str, str]:
    """This server's own part of the ConfigMap; its lists are JSON."""
    data = {}
    if options.client_ca_file:
        data[_CLIENTS] = Path(options.client_ca_file).read_text()
    if options.requestheader_client_ca_file:
        data[_PROXIES] = Path(options.requestheader_client_ca_file).read_text()
        lists = {
            "requestheader-username-headers": options.requestheader_username_headers,
            "requestheader-group-headers": options.requestheader_group_headers,
            "requestheader-extra-headers-prefix": options.requestheader_extra_headers_prefix,
            "requestheader-allowed-names": options.requestheader_allowed_names,
        }
        if Features.of(environment.gates).accounts.request_header_uid:
            lists["requestheader-uid-headers"] = options.requestheader_uid_headers
        data |= {name: json.dumps(list(values), separators=(",", ":")) for name, values in lists.items()}
    return data


def combined(expected: Object, stored: Object) -> Object | None:
    """Adds what this server knows to the stored map; None if nothing is new.

    Authorities of other servers stay, and so do their headers where this one has none.


    """
    old, new = stored.get("data") or {}, expected["data"]
    data = {**old, **new}
    for name in (_CLIENTS, _PROXIES):
        blocks = certificate_blocks(old.get(name, ""))
        missing = [block for block in certificate_blocks(new.get(name, "")) if block not in blocks]
        if name in old:
            data[name] = old[name] if not missing else "".join(f"{block}\n" for block in [*blocks, *missing])
    for name in sorted(set(old) & set(new) - {_CLIENTS, _PROXIES}):
        before = _list(old[name])
        values = [*before, *(value for value in _list(new[name]) if value not in before)]
        data[name] = json.dumps(values, separators=(",", ":"))
    return {**stored, "data": data} if data != old else None


def _list(text: str) -> list[str]:
    try:
        found = json.loads(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


async def run(services: Services, dispatch: Handler, options: ServerOptions, port: int) -> bool:
    """Creates what is missing; several servers may do it at once. False if something was refused."""

    async def ensure(objects: Iterable[tuple[str, Object]]) -> bool:
        lacking = [each for each in objects if any(_requests(services, *each))]
        done = await asyncio.gather(*(_ensure(services, dispatch, *each) for each in lacking))
        return all(done)

    flow_control = dict(services.table.groups()).get(defaults.GROUP, [""])[0]
    # First the objects that contain the others or are named by them.
    first = await ensure([*_namespaces(), *defaults.levels(flow_control)])
    rest = await ensure(
        [
            *_objects(services, options, port),
            *_roles(services),
            *built_in(services),
            *defaults.schemas(flow_control, lease_locks_only=services.features.kinds.lease_locks_only),
        ]
    )
    return first and rest


async def keep(services: Services, dispatch: Handler, options: ServerOptions, port: int) -> None:
    """Creates again what is deleted of the objects that a cluster needs, until it is cancelled.

    Existing objects stay as they are, also endpoints of another server: each server would take the service
    for itself. Source: the intervals of upstream's controllers kubernetesservice, systemnamespaces and of the
    producer of priority and fairness' configuration (flowcontrol), 1.36.


    """
    flow_control = dict(services.table.groups()).get(defaults.GROUP, [""])[0]
    leases = services.features.kinds.lease_locks_only
    for turn in itertools.count(1):
        await services.environment.clock.sleep(KEEPING_SECONDS)
        objects = [*_service(services, options, port)]
        if turn % _NAMESPACE_TURNS == 0:
            objects += [
                *_namespaces(),
                *defaults.levels(flow_control),
                *defaults.schemas(flow_control, lease_locks_only=leases),
            ]
        for path, obj in objects:
            creation = _creation_of_missing(services, path, obj)
            if creation is not None:
                await _tolerant(dispatch, creation, "AlreadyExists")


def _creation_of_missing(services: Services, path: str, obj: Object) -> Request | None:
    """None if `obj` is there, or its kind is not served."""
    key = _key(services, path, obj)
    if key is None or services.store.get(key) is not None:
        return None
    return _request("POST", path, obj)


def _key(services: Services, path: str, obj: Object) -> Key | None:
    """None if the kind of `obj` is not served."""
    info = _creation(path)
    resource = services.table.resource(info.group, info.version, info.resource)
    if resource is None:
        return None
    return Key(resource.storage_resource, info.namespace, obj["metadata"]["name"])


@cache
def _creation(path: str) -> RequestInfo:
    """Cached: objects are made here under few paths."""
    return parse_info("POST", path, {})


async def _ensure(services: Services, dispatch: Handler, path: str, obj: Object) -> bool:
    """Creates `obj` unless it is there, else puts right what differs. False if that was refused.

    An object that another server was faster with may lack something, as an older release has fewer rules: it
    is read again. Source: k8s.io/component-helpers/auth/rbac/reconciliation/reconcile_role.go (run), 1.36.


    """
    for _ in range(_ATTEMPTS):
        outcomes = [
            await _tolerant(dispatch, request, tolerated)
            for request, tolerated in _requests(services, path, obj)
        ]
        if False in outcomes:
            return False
        if None not in outcomes:
            break
    return True


def _requests(services: Services, path: str, obj: Object) -> Iterable[tuple[Request, str]]:
    """Each request comes with the reason for which it may fail. There is none if `obj` is as wanted or not
    served.
    """
    key = _key(services, path, obj)
    if key is None:
        return
    name, entry = key.name, services.store.get(key)
    if entry is None:
        yield _request("POST", path, obj), "AlreadyExists"
        return
    stored = known_object(entry)
    new: Object | None = None
    if obj["kind"] in {"Endpoints", "EndpointSlice"}:
        new = obj
    elif stored is not None and obj["kind"] == "ConfigMap" and name == NAME:
        new = combined(obj, stored)
    elif stored is not None and obj["apiVersion"].startswith("rbac.authorization.k8s.io/"):
        if must_be_replaced(obj, stored):
            yield _request("DELETE", f"{path}/{name}", None), "NotFound"
            yield _request("POST", path, obj), "AlreadyExists"
            return
        new = reconciled(obj, stored)
    if new is not None:
        yield _request("PUT", f"{path}/{name}", new), "Conflict"


async def _tolerant(dispatch: Handler, request: Request, reason: str) -> bool | None:
    """Sends a request that may fail for `reason`, when another server was faster: then None.

    Any other refusal, by a webhook perhaps, must not keep the server from starting: it is logged, and False
    is returned, so that the request is tried again.


    """
    try:
        await dispatch(request)
    except StatusError as error:
        if is_reason(error, reason):
            return None
        log.warning("%s %s by the server itself: %s", request.method, request.path, error.message)
        return False
    return True


def _request(method: str, path: str, obj: Object | None) -> Request:
    body = b"" if obj is None else orjson.dumps(obj)
    request = Request.of(method, path, {"user-agent": "kube-apiserver"}, body)
    request.info = parse_info(method, path, {})
    request.user = SERVER
    return request


def _namespaces() -> Iterable[tuple[str, Object]]:
    for name in NAMESPACES:
        yield "/api/v1/namespaces", _object("v1", "Namespace", name)


def _roles(services: Services) -> Iterable[tuple[str, Object]]:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    default = DefaultRoles(services.environment.gates)
    for role in default.cluster_roles():
        yield f"{rbac}/clusterroles", role
    for binding in default.cluster_role_bindings():
        yield f"{rbac}/clusterrolebindings", binding
    for role in default.roles():
        yield f"{rbac}/namespaces/{role['metadata']['namespace']}/roles", role
    for binding in default.role_bindings():
        yield f"{rbac}/namespaces/{binding['metadata']['namespace']}/rolebindings", binding


def _objects(services: Services, options: ServerOptions, port: int) -> Iterable[tuple[str, Object]]:
    for name, (value, description) in _PRIORITIES.items():
        obj = _object("scheduling.k8s.io/v1", "PriorityClass", name)
        yield (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {**obj, "value": value, "globalDefault": False, "description": description},
        )
    yield from _service(services, options, port)
    tracking = _object("v1", "ConfigMap", "kube-apiserver-legacy-service-account-token-tracking")
    tracking["data"] = {"since": services.environment.clock.now().date().isoformat()}
    yield "/api/v1/namespaces/kube-system/configmaps", tracking
    if data := data_of(options, services.environment):
        config = _object("v1", "ConfigMap", NAME)
        yield "/api/v1/namespaces/kube-system/configmaps", {**config, "data": data}


def _service(services: Services, options: ServerOptions, port: int) -> Iterable[tuple[str, Object]]:
    """Cluster IP is the first address of the range; endpoints lead to this server's advertised address."""
    network = ipaddress.ip_network(options.service_cluster_ip_range)
    address = str(network[1])
    if services.features.services.several_ranges:
        version = f"networking.k8s.io/{services.features.services.range_version}"
        cidr = _object(version, "ServiceCIDR", "kubernetes")
        yield f"/apis/{version}/servicecidrs", {**cidr, "spec": {"cidrs": [str(network)]}}
    service = _object("v1", "Service", "kubernetes", {"component": "apiserver", "provider": "kubernetes"})
    service["spec"] = {
        "type": "ClusterIP",
        "clusterIP": address,
        "ports": [{"name": _PORT_NAME, "port": 443, "protocol": "TCP", "targetPort": port}],
        "sessionAffinity": "None",
    }
    yield "/api/v1/namespaces/default/services", service
    ports = [{"name": _PORT_NAME, "port": port, "protocol": "TCP"}]
    endpoints = _object("v1", "Endpoints", "kubernetes", {"endpointslice.kubernetes.io/skip-mirror": "true"})
    endpoints["subsets"] = [{"addresses": [{"ip": options.advertise_address}], "ports": ports}]
    yield "/api/v1/namespaces/default/endpoints", endpoints
    slices = _object(
        "discovery.k8s.io/v1", "EndpointSlice", "kubernetes", {"kubernetes.io/service-name": "kubernetes"}
    )
    ready = {"addresses": [options.advertise_address], "conditions": {"ready": True}}
    slices |= {"addressType": "IPv4", "endpoints": [ready], "ports": ports}
    yield "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slices


def _object(api_version: str, kind: str, name: str, labels: dict[str, str] | None = None) -> Object:
    metadata: Object = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
