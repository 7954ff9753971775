"""Makes an answer of every error that nobody foresaw: below it all others are answers already."""

import logging

from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import ConnectionDroppedError, Handler, Request, Response

log = logging.getLogger(__name__)


def with_panic_recovery(handler: Handler) -> Handler:
    """Logs an unforeseen error with its trace, and tells it as a 500."""

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
