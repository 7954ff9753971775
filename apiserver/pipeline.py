"""Filters of a request, in their order. Those with parts of their own are in `filters/`.

Sources, all 1.36: k8s.io/apiserver/pkg/endpoints/filters (requestinfo.go, warning.go, request_deadline.go),
pkg/server/filters (timeout.go; maxinflight.go, where masters are never refused) and, for what a warning
looks like, apimachinery/pkg/util/net/http.go.
"""

import asyncio
import logging
import math
import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import Any
from unicodedata import category

from kubeskew.apimachinery import errors, field
from kubeskew.apimachinery.clock import Clock, Entropy
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.field import ErrorType
from kubeskew.apimachinery.go_formats import parse_duration
from kubeskew.apiserver.authentication import Authenticator
from kubeskew.apiserver.authorization import Authorizer, refusal
from kubeskew.apiserver.filters.fairness import Fairness, with_fairness
from kubeskew.apiserver.filters.impersonation import with_impersonation
from kubeskew.apiserver.http import statuses
from kubeskew.apiserver.http.request import (
    MAX_SECONDS,
    ConnectionDroppedError,
    Handler,
    Request,
    RequestInfo,
    Response,
    Tunnel,
    Upgrade,
    parse_info,
    text,
)
from kubeskew.apiserver.http.statuses import internal_error
from kubeskew.apiserver.metrics import AccessMetrics, RequestMetrics
from kubeskew.apiserver.user import MASTERS_GROUP

_ID_MAX = 64  # characters of a client's own id; as upstream


def with_audit_id(handler: Handler, entropy: Entropy) -> Handler:
    """Takes the client's `Audit-ID` or a new one; it comes back in the answer and stands in the log."""

    async def identify(request: Request) -> Response:
        request.request_id = request.headers.get("audit-id", "")[:_ID_MAX] or entropy.uid()
        response = await handler(request)
        response.headers.append(("Audit-Id", request.request_id))
        if not any(name == "Cache-Control" for name, _ in response.headers):
            response.headers.append(("Cache-Control", "no-cache, private"))
        return response

    return identify


def with_audit(handler: Handler, metrics: RequestMetrics, clock: Clock) -> Handler:
    async def audit(request: Request) -> Response:
        request.known_at = begun = clock.monotonic()
        response = await handler(request)
        metrics.observe(request, response, (request.answered_at or clock.monotonic()) - begun)
        if type(response.body) is not bytes and request.info.is_long_running:
            _count_open(metrics, request.info, response)
        return response

    return audit


def _count_open(metrics: RequestMetrics, info: RequestInfo, response: Response) -> None:
    """Counts the answer among the long-running ones while it is being sent."""
    body = response.body
    if isinstance(body, Upgrade):
        response.body = replace(body, talk=partial(_talk, metrics, info, body))
    elif not isinstance(body, bytes):
        response.body = _counted_pieces(metrics, info, body)


async def _talk(metrics: RequestMetrics, info: RequestInfo, upgrade: Upgrade, tunnel: Tunnel) -> None:
    with metrics.long_running(info):
        await upgrade.talk(tunnel)


async def _counted_pieces(
    metrics: RequestMetrics, info: RequestInfo, body: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    generator: Any = body
    with metrics.long_running(info):
        async with aclosing(generator):
            async for piece in body:
                yield piece


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


def with_request_info(handler: Handler) -> Handler:
    """Sets `request.info`; answers 500 to a path that cannot be parsed."""

    async def inform(request: Request) -> Response:
        try:
            request.info = parse_info(request.method, request.path, request.query)
        except ValueError as error:
            return internal_error(request, f"failed to create RequestInfo: {error}, {request.path}")
        return await handler(request)

    return inform


_DEADLINE_LOOK_SECONDS = 1.0


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
            async with asyncio.timeout(_timeout_seconds(text)):
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
            self._timer = loop.call_later(_DEADLINE_LOOK_SECONDS, self._look, loop)
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
        self._timer = loop.call_later(_DEADLINE_LOOK_SECONDS, self._look, loop) if self._requests else None


def _timeout_seconds(text: str) -> float:
    try:
        asked = parse_duration(text)
    except ValueError as error:
        raise errors.bad_request(f"invalid timeout specified in the request URL - {error}") from None
    return asked if 0 < asked < MAX_SECONDS else MAX_SECONDS


_WARNINGS_MAX = (
    4 * 1024
)  # characters of all texts; beyond, each text is cut, and those beyond the sum are dropped
_WARNING_CUT = 256


def with_warnings(handler: Handler) -> Handler:
    """Adds a Warning header per distinct text in `request.warnings`, to errors as well."""

    async def warn(request: Request) -> Response:
        response = await handler(request)
        if request.warnings:
            response.headers.extend(_warning_headers(request.warnings))
        return response

    return warn


def _warning_headers(warnings: list[str]) -> list[tuple[str, str]]:
    texts = list(dict.fromkeys(text for text in warnings if text and not _has_control(text)))
    if sum(map(len, texts)) > _WARNINGS_MAX:
        texts = [text[:_WARNING_CUT] for text in texts]
        before = accumulate(map(len, texts), initial=0)
        texts = [text for text, size in zip(texts, before, strict=False) if size < _WARNINGS_MAX]
    return [("Warning", f'299 - "{_quoted(text)}"') for text in texts]


def _has_control(text: str) -> bool:
    return any(category(char) == "Cc" for char in text)


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


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


def with_authorization(handler: Handler, authorizer: Authorizer, metrics: AccessMetrics) -> Handler:
    async def authorize(request: Request) -> Response:
        decision = authorizer.authorize(request.user, request.info)
        if not decision.allowed:
            metrics.not_allowed += 1
            refused = statuses.response(request, refusal(request.user, request.info, decision.reason))
            refused.headers.append(("X-Content-Type-Options", "nosniff"))
            return refused
        metrics.allowed += 1
        return await handler(request)

    return authorize


_AT_MOST = r"Too long: must have at most \1 bytes"
_ONE_ITEM = re.compile(r"Too many: (\d+): must have at most 1 item")
_TOO_LONG = re.compile(r"Too long: may not be more than (\d+) bytes?")


def with_status_errors(handler: Handler, *, old_lengths: bool = False) -> Handler:
    """Answers the errors that `handler` raises, as upstream's handlers write theirs.

    `old_lengths`: texts of what is too long are those of releases up to 1.31.

    Filters above it only see answers. Their own refusals are answers too: they raise nothing.
    """

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except StatusError as error:
            return statuses.response(request, with_old_lengths(error) if old_lengths else error)

    return answer


def with_old_lengths(error: StatusError) -> StatusError:
    """Changes the error's causes that are about lengths, and its message where that lists the causes.

    Nothing else is touched: a rule of a user may have any text.
    """
    causes = (error.details or {}).get("causes", ())
    changed = [{**cause, **_of_old_length(cause)} for cause in causes]
    before = field.listed(map(_text_of, causes))
    if error.reason == "Invalid" and changed != list(causes) and error.message.endswith(before):
        error.message = error.message.removesuffix(before) + field.listed(map(_text_of, changed))
        error.details = {**(error.details or {}), "causes": changed}
    return error


def _text_of(cause: Mapping[str, str]) -> str:
    return f"{cause.get('field', '')}: {cause.get('message', '')}"


def _of_old_length(cause: Mapping[str, str]) -> Mapping[str, str]:
    message = cause.get("message", "")
    if cause.get("reason") == ErrorType.TOO_LONG and (match := _TOO_LONG.fullmatch(message)):
        return {"message": match.expand(_AT_MOST)}
    if cause.get("reason") == ErrorType.TOO_MANY and _ONE_ITEM.fullmatch(message):
        return {"message": f"{message}s"}
    return {}


def build(
    handler: Handler,
    *,
    authenticator: Authenticator,
    authorizer: Authorizer,
    metrics: RequestMetrics,
    clock: Clock,
    entropy: Entropy,
    max_reads: int,
    max_writes: int,
    constrained_impersonation: bool = False,
    missing_user_is_400: bool = False,
    old_lengths: bool = False,
    fairness: Fairness | None = None,
    faults: Callable[[Handler], Handler] | None = None,
) -> Handler:
    """Puts all filters around `handler`: the first here is the innermost."""
    handler = with_status_errors(handler, old_lengths=old_lengths)  # its errors are answers from here on
    handler = with_authorization(handler, authorizer, metrics.access)
    if fairness is not None:
        handler = with_fairness(handler, fairness)
    else:
        handler = with_max_in_flight(handler, max_reads, max_writes)
    constrained, missing = constrained_impersonation, missing_user_is_400
    handler = with_impersonation(handler, authorizer, constrained=constrained, missing_user_is_400=missing)
    if faults is not None:
        handler = faults(handler)
    handler = with_audit(handler, metrics, clock)
    handler = with_authentication(handler, authenticator, metrics.access, clock)
    handler = with_warnings(handler)
    handler = with_deadline(handler)
    handler = with_request_info(handler)
    handler = with_panic_recovery(handler)
    return with_audit_id(handler, entropy)
