"""Read what the request is about, once."""

from apiserver import request_info
from apiserver.request import Handler, Request, Response


def with_request_info(handler: Handler) -> Handler:
    """Fill in `request.info`."""

    async def inform(request: Request) -> Response:
        request.info = request_info.parse(request.method, request.path, request.query)
        return await handler(request)

    return inform
