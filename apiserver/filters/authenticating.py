"""Authenticates requests."""

from kubeskew.apimachinery import errors
from kubeskew.apiserver.authentication import Authenticator
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, Response


def with_authentication(handler: Handler, authenticator: Authenticator) -> Handler:
    """Fill in `request.user`, or answer 401."""

    async def authenticate(request: Request) -> Response:
        user = authenticator.authenticate(request)
        if user is None:
            return statuses.response(request, errors.unauthorized())
        request.user = user
        return await handler(request)

    return authenticate
