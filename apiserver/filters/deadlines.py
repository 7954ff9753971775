"""Time limits of all requests but watches.

Source: k8s.io/apiserver/pkg/server/filters/timeout.go and endpoints/filters/request_deadline.go, 1.36.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery import errors
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import MAX_SECONDS, Handler, Request, Response

_LOOK_SECONDS = 1.0


def with_deadline(handler: Handler) -> Handler:
    """Answers 504 when a request takes longer than its `timeout` parameter or the server's limit."""
    running = _Running()

    async def limit(request: Request) -> Response:
        if request.info.is_long_running:
            return await handler(request)
        text = request.param("timeout")
        try:
            if not text:
                return await running.bounded(handler, request)
            async with asyncio.timeout(_seconds(text)):
                return await handler(request)
        except StatusError as error:  # of the parameter: handlers below answer theirs
            return statuses.response(request, error)
        except TimeoutError:
            late = errors.timeout("request did not complete within the allotted timeout")
            return statuses.response(request, late)

    return limit


@dataclass(slots=True, eq=False)
class _RunningRequest:
    """`end` is in seconds of the event loop."""

    end: float
    task: "asyncio.Task[Any]"
    expired: bool = False


class _Running:
    """Holds requests under the server's own limit. All have the same, so the oldest is always the first.

    One timer looks at them once a second: a timer for every request cost a tenth of a GET.


    """

    def __init__(self) -> None:
        self._requests: dict[_RunningRequest, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def bounded(self, handler: Handler, request: Request) -> Response:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            return await handler(request)
        running = _RunningRequest(loop.time() + MAX_SECONDS, task)
        self._requests[running] = None
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_SECONDS, self._look, loop)
        try:
            return await handler(request)
        except asyncio.CancelledError:
            if running.expired and task.uncancel() == 0:
                raise TimeoutError from None
            raise
        finally:
            del self._requests[running]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for running in self._requests:
            if running.end > now:
                break
            if not running.expired:
                running.expired = True
                running.task.cancel()
        self._timer = loop.call_later(_LOOK_SECONDS, self._look, loop) if self._requests else None


def _seconds(text: str) -> float:
    try:
        asked = parse_duration(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return asked if 0 < asked < MAX_SECONDS else MAX_SECONDS
