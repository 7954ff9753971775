"""A 500 for unforeseen errors; all others are answers already below this filter."""

import logging

from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import ConnectionDroppedError, Handler, Request, Response

log = logging.getLogger(__name__)


def with_panic_recovery(handler: Handler) -> Handler:
    async def recover(request: Request) -> Response:
        try:
            return await handler(request)
        except ConnectionDroppedError:
            raise
        except Exception:
            log.exception("%s %r", request.method, request.path)
            return statuses.panic(request)
        finally:
            request.release()

    return recover
