"""Authorizes requests."""

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.authorization import Authorizer, refusal
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, Response
from kubeskew.apiserver.instrumentation.access import AccessMetrics


def with_authorization(
    handler: Handler, authorizer: Authorizer, metrics: AccessMetrics, clock: Clock
) -> Handler:
    """Answer 403 to what the authorizer does not allow."""

    async def authorize(request: Request) -> Response:
        begun = request.seated_at or clock.monotonic()
        decision = authorizer.authorize(request.user, request.info)
        metrics.authorized(clock.monotonic() - begun, allowed=decision.allowed)
        if not decision.allowed:
            refused = statuses.response(request, refusal(request.user, request.info, decision.reason))
            refused.headers.append(("X-Content-Type-Options", "nosniff"))
            return refused
        return await handler(request)

    return authorize
