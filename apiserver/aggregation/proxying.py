"""Hand a request to the server that answers for its group version, and its answer back.

Source: k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go and k8s.io/client-go/transport, 1.36.
"""

import base64
import ssl
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from apiserver.aggregation.registered import Remote
from apiserver.request import Request, Response, text
from apiserver.user import User
from apiserver.webhooks import failures
from apiserver.webhooks.endpoints import Address, ResolutionError
from apiserver.webhooks.trust import trusting, trusting_all

if TYPE_CHECKING:
    from apiserver.services import Services

_MAX_BODY = 100 << 20
_PATH = "/:@!$&'()*+,;=-._~"
# Of one connection only, or none of the other server's business.
_DROPPED = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "upgrade",
        "transfer-encoding", "host", "content-length", "authorization", "accept-encoding", "content-encoding",
        "sec-websocket-protocol",
    }
)  # fmt: skip
_DROPPED_PREFIXES = ("impersonate-", "x-remote-")


async def proxy(services: "Services", remote: Remote, request: Request) -> Response:
    """The remote server's answer; 503 in plain text where it is known, or found, not to be there."""
    if not remote.available:
        return unavailable()
    try:
        answer = await send(services, remote, request)
    except ResolutionError:
        return unavailable()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        service = remote.spec["service"]
        address = Address(f"{service['name']}.{service['namespace']}.svc", service.get("port") or 443)
        return text(503, f"error trying to reach service: {failures.of_connection(error, address)}\n")
    return await _answer(request, answer)


def unavailable() -> Response:
    return text(503, "service unavailable\n")


async def send(
    services: "Services", remote: Remote, request: Request, seconds: float | None = None
) -> aiohttp.ClientResponse:
    """Send the request on; raises ResolutionError, aiohttp.ClientError, OSError, TimeoutError."""
    service = remote.spec["service"]
    name, namespace, port = service["name"], service["namespace"], service.get("port") or 443
    services.service_resolver.resolve(namespace, name, port)
    query = urlencode([(key, value) for key, values in request.query.items() for value in values])
    target = f"https://{name}.{namespace}.svc:{port}{quote(request.path, safe=_PATH)}"
    url = URL(f"{target}?{query}" if query else target, encoded=True)
    body = await request.read_body(_MAX_BODY)
    return await services.webhooks.session().request(
        request.method,
        url,
        headers=_headers(request),
        data=body or None,
        ssl=_context(remote.spec),
        timeout=aiohttp.ClientTimeout(total=seconds, sock_connect=10.0),
        allow_redirects=False,
    )


def _context(spec: dict[str, object]) -> ssl.SSLContext:
    if spec.get("insecureSkipTLSVerify"):
        return trusting_all()
    return trusting(base64.b64decode(str(spec.get("caBundle") or "")).decode(errors="replace"))


def _headers(request: Request) -> CIMultiDict[str]:
    """The client's headers without its credentials, and who it is."""
    headers: CIMultiDict[str] = CIMultiDict()
    for name, value in request.headers.items():
        lowered = name.lower()
        if lowered not in _DROPPED and not lowered.startswith(_DROPPED_PREFIXES):
            headers.add(name, value)
    for name, value in identity(request.user):
        headers.add(name, value)
    headers.add("X-Forwarded-Uri", request.path)
    headers.add("X-Forwarded-Proto", "https")
    if "host" in request.headers:
        headers.add("X-Forwarded-Host", request.headers["host"])
    return headers


def identity(user: User) -> list[tuple[str, str]]:
    """The headers by which a front proxy tells who asks."""
    told = [("X-Remote-User", user.name)]
    if user.uid:
        told.append(("X-Remote-Uid", user.uid))
    told += [("X-Remote-Group", group) for group in user.groups]
    for key, values in user.extra.items():
        told += [(f"X-Remote-Extra-{quote(key.lower(), safe='')}", value) for value in values]
    return told


async def _answer(request: Request, answer: aiohttp.ClientResponse) -> Response:
    headers = [
        (name, value)
        for name, value in answer.headers.items()
        if name.lower() not in _DROPPED
        and name.lower() not in {"content-type", "audit-id", "cache-control", "date"}
    ]
    content_type = answer.headers.get("Content-Type", "application/octet-stream")
    if request.info.is_long_running:
        return Response(answer.status, _chunks(answer), content_type, headers)
    try:
        body = await answer.read()
    except aiohttp.ClientError as error:
        return text(502, f"{error}\n")
    return Response(answer.status, body, content_type, headers)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The body as it comes; the other server learns when nobody reads any more."""
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientError:
        pass  # it ends where the other server ended it
    finally:
        answer.close()
