"""Limits of requests that are served at once, for reads and writes.

Source: k8s.io/apiserver/pkg/server/filters/maxinflight.go, 1.36 (masters are never refused).
"""

from kubeskew.apiserver.http.request import Handler, Request, Response, text
from kubeskew.apiserver.user import MASTERS_GROUP


def with_max_in_flight(handler: Handler, max_reads: int, max_writes: int) -> Handler:
    """Answers 429 beyond the limits; 0 is no limit. Watches do not count."""
    limits = {True: max_writes, False: max_reads}
    running = {True: 0, False: 0}

    async def bound(request: Request) -> Response:
        info = request.info
        if info.is_long_running:
            return await handler(request)
        kind = info.is_mutating
        if limits[kind] and running[kind] >= limits[kind] and MASTERS_GROUP not in request.user.groups:
            return text(429, "Too many requests, please try again later.\n", [("Retry-After", "1")])
        running[kind] += 1
        try:
            return await handler(request)
        finally:
            running[kind] -= 1

    return bound
