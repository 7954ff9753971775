"""Hands a request to the server of its group version, and its answer back.

Bodies, watches and upgraded connections pass through as they come.
Source: k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go, k8s.io/apimachinery/pkg/util/proxy
(upgradeaware.go) and k8s.io/client-go/transport, 1.36.
"""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing

from kubeskew.apiserver.aggregation.registered import AggregationServices, Remote
from kubeskew.apiserver.http.request import MAX_SECONDS, Request, Response, text
from kubeskew.apiserver.nodes.identity import identity
from kubeskew.apiserver.nodes.proxy import (
    Address,
    BackendResponse,
    DialError,
    Headers,
    framing,
    is_upgrade,
    passed_on,
    send,
    streamed,
    switched,
    target_of,
)
from kubeskew.apiserver.webhooks import client
from kubeskew.apiserver.webhooks.client import shown_by, trusting, trusting_all
from kubeskew.apiserver.webhooks.endpoints import ResolutionError

_HTTPS = 443
_OURS = frozenset({"audit-id", "cache-control"})


async def proxy(services: AggregationServices, remote: Remote, request: Request) -> Response:
    """Answers 503 in plain text if the remote server is known, or found, not to be there."""
    if not remote.available:
        return unavailable()
    request.ends_with_client = True
    try:
        answer = await ask(services, remote, request)
    except ResolutionError:
        return unavailable()
    except DialError as error:
        what = "error dialing backend" if is_upgrade(request) else "error trying to reach service"
        return text(503, f"{what}: {error}\n")
    if is_upgrade(request):
        return await switched(answer)
    response = streamed(answer)
    response.headers = [(name, value) for name, value in response.headers if name.lower() not in _OURS]
    if not request.info.is_long_running and not isinstance(response.body, bytes):
        response.body = _bounded(answer)
    return response


async def _bounded(answer: BackendResponse) -> AsyncIterator[bytes]:
    """The body may take as long as a request; then the connection is cut, as upstream."""
    end = asyncio.get_running_loop().time() + MAX_SECONDS
    async with aclosing(answer.pieces()) as pieces:
        while True:
            try:
                async with asyncio.timeout_at(end):
                    piece = await anext(pieces, b"")
            except TimeoutError:
                raise ConnectionResetError("a remote answer took too long") from None
            if not piece:
                return
            yield piece


def unavailable() -> Response:
    return text(503, "service unavailable\n")


async def ask(services: AggregationServices, remote: Remote, request: Request) -> BackendResponse:
    """Sends the request on; raises ResolutionError and DialError."""
    service = remote.spec["service"]
    name, namespace, port = service["name"], service["namespace"], service.get("port") or _HTTPS
    found = services.service_resolver.resolve(namespace, name, port)
    network = services.service_resolver.network_of(found.host)
    address = Address(
        found.host, found.port, _context(services, remote.spec), f"{name}.{namespace}.svc", network
    )
    try:
        return await send(
            address,
            request.method,
            target_of(request),
            _headers(request, address),
            request.pieces(),
            head_seconds=None,
        )
    except DialError as error:
        why = error.__cause__
        if isinstance(why, ssl.SSLCertVerificationError):
            shown = await shown_by(found, address.name, network)
            now = services.environment.clock.now()
            raise DialError(client.of_certificate(why, shown, address.name, now)) from why
        if isinstance(why, ssl.SSLError):
            raise DialError(client.of_handshake(why)) from why
        raise


def _context(services: AggregationServices, spec: dict[str, object]) -> ssl.SSLContext:
    identity = services.front_proxy_client
    if spec.get("insecureSkipTLSVerify"):
        return trusting_all(identity)
    return trusting(base64.b64decode(str(spec.get("caBundle") or "")).decode(errors="replace"), identity)


def _headers(request: Request, address: Address) -> Headers:
    """The client's credentials are replaced by headers that say who it is."""
    upgrade = [("Connection", "Upgrade"), ("Upgrade", request.headers.get("upgrade", ""))]
    headers = upgrade if is_upgrade(request) else [("Connection", "close")]
    headers += [*passed_on(request), *framing(request), *identity(request.user)]
    headers += [("X-Forwarded-Uri", request.path), ("X-Forwarded-Host", str(address))]
    return [*headers, ("X-Forwarded-Proto", address.scheme)]
