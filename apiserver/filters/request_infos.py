"""Request infos, parsed once per request.

Source: k8s.io/apiserver/pkg/endpoints/filters/requestinfo.go, 1.36.
"""

from kubeskew.apiserver.http.request import Handler, Request, Response, parse_info
from kubeskew.apiserver.http.statuses import internal_error


def with_request_info(handler: Handler) -> Handler:
    """Sets `request.info`; answers 500 to a path that cannot be parsed."""

    async def inform(request: Request) -> Response:
        try:
            request.info = parse_info(request.method, request.path, request.query)
        except ValueError as error:
            return internal_error(request, f"failed to create RequestInfo: {error}, {request.path}")
        return await handler(request)

    return inform
