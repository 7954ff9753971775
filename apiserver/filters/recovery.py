"""Makes an answer of every error below: the outermost filter."""

import logging

from kubeskew.apimachinery.errors import StatusError
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import Handler, Request, Response

log = logging.getLogger(__name__)


def with_panic_recovery(handler: Handler) -> Handler:
    """Turn every error into an answer; an unforeseen one is logged with its trace and told as a 500."""

    async def recover(request: Request) -> Response:
        try:
            return await handler(request)
        except StatusError as error:
            return statuses.response(request, error)
        except Exception:
            log.exception("%s %r", request.method, request.path)
            return statuses.panic(request)
        finally:
            request.release()

    return recover
