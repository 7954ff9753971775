"""Serves exec, attach and portforward of a pod: joins the client's connection with the kubelet's.

Source: pkg/registry/core/pod/rest/subresources.go, pkg/registry/core/pod/strategy.go (streamLocation) and
k8s.io/apiserver/pkg/endpoints/handlers/rest.go (ConnectResource), 1.36.
"""

from urllib.parse import urlencode

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.authorization import refusal
from kubeskew.apiserver.http import parameters
from kubeskew.apiserver.http.parameters import parse_int32s
from kubeskew.apiserver.http.request import Request, Response
from kubeskew.apiserver.nodes.connections import container_of, pod_of
from kubeskew.apiserver.nodes.proxy import is_upgrade, is_websocket, offered_protocols, pass_upgrade
from kubeskew.apiserver.registry.requests.scope import RequestServices, Scope, admit_connection

_FLAGS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
# WebSocket protocols that the server understands by itself, once the gate is on.
_KINDS = {"exec": "PodExecOptions", "attach": "PodAttachOptions", "portforward": "PodPortForwardOptions"}


async def connect(request: Request, scope: Scope) -> Response:
    """A 101 joins both sides; else the kubelet's own answer is returned."""
    services, info = scope.services, request.info
    _check_permission(request, scope)
    options = _options(request, info.subresource)
    await admit_connection(request, scope, options)
    pod = await pod_of(services, info.namespace, info.name)
    path = f"{info.namespace}/{info.name}"
    if info.subresource == "portforward":
        target, pairs = f"/portForward/{path}", _ports(options)
    else:
        target = f"/{info.subresource}/{path}/{container_of(pod, options.get('container', ''))}"
        pairs = [(theirs, "1") for ours, theirs in _FLAGS.items() if options.get(ours)]
        pairs += [("command", word) for word in options.get("command") or []]
    node = pod["spec"].get("nodeName")
    if not node:
        raise errors.bad_request(f"pod {info.name} does not have a host assigned")
    address = services.nodes.address(services, node, asked=info.resource)
    if not is_upgrade(request):
        raise errors.bad_request("Upgrade request required")
    if _is_too_new(request, services):
        return Response(403, b"", "text/plain")
    query = urlencode(sorted(pairs, key=lambda pair: pair[0]))
    return await pass_upgrade(request, address, f"{target}?{query}" if query else target)


def _is_too_new(request: Request, services: RequestServices) -> bool:
    """A client that offers only protocols newer than the server falls back to SPDY then."""
    if not is_websocket(request):
        return False
    pods = services.features.pods
    unknown = set()
    if not pods.remote_commands_by_websocket:
        unknown.add("v5.channel.k8s.io")
    if not pods.port_forward_by_websocket:
        unknown.add("SPDY/3.1+portforward.k8s.io")
    offered = set(offered_protocols(request))
    return bool(offered & unknown) and offered <= unknown


def _check_permission(request: Request, scope: Scope) -> None:
    """WebSockets, which are opened by GET, need the right to create since 1.35."""
    services = scope.services
    if request.info.verb != "get" or not is_websocket(request):
        return
    if not services.features.pods.authorizes_websockets:
        return
    info = request.info._replace(verb="create")
    decision = services.authorizer.authorize(request.user, info)
    if not decision.allowed:
        raise refusal(request.user, info, decision.reason)


def _options(request: Request, subresource: str) -> Object:
    options: Object = {"kind": _KINDS[subresource], "apiVersion": "v1"}
    if subresource == "portforward":
        ports = request.query.get("ports") or []
        return options | ({"ports": parse_int32s(ports)} if ports else {})
    for name in _FLAGS:
        if parameters.boolean(request, name):
            options[name] = True
    if request.param("container"):
        options["container"] = request.param("container")
    if subresource == "exec":
        options["command"] = list(request.query.get("command") or []) or None
    return options


def _ports(options: Object) -> list[tuple[str, str]]:
    ports = options.get("ports") or []
    return [("port", ",".join(map(str, ports)))] if ports else []
