"""Authorization of requests."""

from kubeskew.apiserver.authorization import Authorizer, refusal
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, Response
from kubeskew.apiserver.instrumentation import AccessMetrics


def with_authorization(handler: Handler, authorizer: Authorizer, metrics: AccessMetrics) -> Handler:
    async def authorize(request: Request) -> Response:
        decision = authorizer.authorize(request.user, request.info)
        if not decision.allowed:
            metrics.not_allowed += 1
            refused = statuses.response(request, refusal(request.user, request.info, decision.reason))
            refused.headers.append(("X-Content-Type-Options", "nosniff"))
            return refused
        metrics.allowed += 1
        return await handler(request)

    return authorize
