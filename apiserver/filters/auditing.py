"""Gives every request an id, counts it and times it."""

from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apiserver.http.request import Handler, Request, Response
from kubeskew.apiserver.metrics import RequestMetrics

_ID_MAX = 64  # characters of a client's own id; as upstream


def with_audit_id(handler: Handler, entropy: Entropy) -> Handler:
    """The id is the client's `Audit-ID` or a new one; it comes back in the answer and stands in the log."""

    async def identify(request: Request) -> Response:
        request.request_id = request.headers.get("audit-id", "")[:_ID_MAX] or entropy.uid()
        response = await handler(request)
        response.headers.append(("Audit-Id", request.request_id))
        if not any(name == "Cache-Control" for name, _ in response.headers):
            response.headers.append(("Cache-Control", "no-cache, private"))
        return response

    return identify


def with_audit(handler: Handler, metrics: RequestMetrics, clock: Clock) -> Handler:
    """Count and time what somebody asked."""

    async def audit(request: Request) -> Response:
        begun = clock.monotonic()
        response = await handler(request)
        metrics.observe(request.info, response.status, clock.monotonic() - begun)
        return response

    return audit
