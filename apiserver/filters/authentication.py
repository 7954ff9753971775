"""Authentication of requests."""

import math

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.authentication import Authenticator
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, Response
from kubeskew.apiserver.instrumentation import AccessMetrics


def with_authentication(
    handler: Handler, authenticator: Authenticator, metrics: AccessMetrics, clock: Clock
) -> Handler:
    """Sets `request.user`, or answers 401."""

    async def authenticate(request: Request) -> Response:
        user = authenticator.authenticate(request)
        if user is None:
            metrics.unknown += 1
            return statuses.response(request, errors.unauthorized())
        metrics.authenticated(user.name)
        peer = request.peer
        if peer is not None and peer.until != math.inf and peer.common_name:
            metrics.certified(peer.until - clock.now().timestamp())
        request.user = user
        return await handler(request)

    return authenticate
