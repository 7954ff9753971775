"""Bound the time of every request that is not a watch.

Source: k8s.io/apiserver/pkg/server/filters/timeout.go and endpoints/filters/request_deadline.go, 1.36.
"""

import asyncio
import re

from apimachinery import errors
from apiserver.request import Handler, Request, Response

MAX_SECONDS = 60.0
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def with_deadline(handler: Handler) -> Handler:
    """Answer 504 when a request takes longer than its `timeout` parameter or the server's limit."""

    async def limit(request: Request) -> Response:
        if request.info.is_long_running:
            return await handler(request)
        try:
            async with asyncio.timeout(_seconds(request.param("timeout"))):
                return await handler(request)
        except TimeoutError:
            raise errors.timeout("request did not complete within the allotted timeout") from None

    return limit


def _seconds(text: str) -> float:
    if not text:
        return MAX_SECONDS
    if text.lstrip("+-") == "0":
        return MAX_SECONDS
    if _DURATION.sub("", text):
        why = f'time: invalid duration "{text}"'
        raise errors.bad_request(f"invalid timeout specified in the request URL - {why}")
    total = sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(text))
    return min(total, MAX_SECONDS) or MAX_SECONDS
