"""API priority and fairness as a filter.

Source: k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go, 1.36.
"""

import logging
from functools import partial

from kubeskew.apimachinery.clock import Clock, SystemClock
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.process.runtime import level_of
from kubeskew.apiserver.caching.store_cache import DerivedFromStore, Read, TwoGenerationCache
from kubeskew.apiserver.fairness.classifier import Classifier, Flow
from kubeskew.apiserver.fairness.defaults import GROUP
from kubeskew.apiserver.fairness.levels import PriorityLevel, PriorityLevels, RejectedError
from kubeskew.apiserver.fairness.metrics import NOTED_MAX, FlowMetrics, FlowSeries
from kubeskew.apiserver.http.request import Handler, Request, RequestInfo, Response, text
from kubeskew.apiserver.storage.interfaces import Store
from kubeskew.apiserver.unreadable import stored_object
from kubeskew.apiserver.user import User

log = logging.getLogger(__name__)

_REJECTION_LEVEL = level_of(5)  # the log level of rejections without a wait
_REMEMBERED = 5_000  # users x kinds of requests, twice
_Key = tuple[str, tuple[str, ...], str, str, str, str, str]


class Fairness:
    """Classifies requests and seats them; both follow the stored objects."""

    def __init__(
        self,
        store: Store,
        metrics: FlowMetrics,
        total: int,
        read: Read = stored_object,
        clock: Clock | None = None,
    ) -> None:
        self._metrics = metrics
        self._now = (clock or SystemClock()).monotonic
        self._levels = PriorityLevels(total, self._now, metrics.ended)
        self._known: TwoGenerationCache[_Key, tuple[Flow, FlowSeries]] = TwoGenerationCache(_REMEMBERED)
        names = [f"flowschemas.{GROUP}", f"prioritylevelconfigurations.{GROUP}"]
        self._classifier = DerivedFromStore(store, names, self._configure, read)

    def _configure(self, schemas: list[Object], levels: list[Object]) -> Classifier:
        by_name = {one["metadata"]["name"]: one for one in levels}
        self._levels.configure(by_name)
        self._known = TwoGenerationCache(_REMEMBERED)
        return Classifier(schemas, by_name)

    def _flow(self, user: User, info: RequestInfo) -> tuple[Flow, FlowSeries] | None:
        """Remembers flow and counts for requests of one kind. None while nothing is configured."""
        classifier = self._classifier.get()
        place = info.resource if info.is_resource else info.path
        key = (user.name, user.groups, info.verb, info.group, place, info.subresource, info.namespace)
        found = self._known.get(key)
        if found is None:
            flow = classifier.classify(user, info)
            if flow is not None:
                found = flow, self._metrics.flow(flow.level, flow.schema, mutating=info.is_mutating)
                self._known.put(key, found)
        return found

    def look(self) -> None:
        self._classifier.get()
        self._metrics.look(self._levels, self._now())

    async def serve(self, handler: Handler, request: Request) -> Response:
        """Answers 429 if there is no seat; either answer has the flow's headers."""
        found = self._flow(request.user, request.info)
        if found is None:  # nothing is configured (yet)
            return await handler(request)
        flow, counted = found
        if request.info.is_long_running:  # a watch only counts while it starts
            return _with_headers(await handler(request), flow)
        level = self._levels.seat(flow.level, request.known_at)
        seated_at = request.known_at
        if level is None:
            try:
                level = await self._enter(request, flow, counted)
            except RejectedError as rejected:
                return _with_headers(self._refused(request, flow, rejected), flow)
            seated_at = self._now()
        counted.dispatched += 1
        counted.kind.begun.append(seated_at)
        try:
            return _with_headers(await handler(request), flow)
        finally:
            request.answered_at = ended = self._now()
            self._levels.leave(level, ended)
            noted = counted.kind.ended
            noted.append(ended)
            if len(noted) > NOTED_MAX:
                counted.kind.settle()
            counted.seconds.observe(ended - seated_at)

    async def _enter(self, request: Request, flow: Flow, counted: FlowSeries) -> PriorityLevel:
        """Raises RejectedError."""
        distinguisher = {"ByUser": request.user.name, "ByNamespace": request.info.namespace}
        name = f"{flow.schema}:{distinguisher.get(flow.distinguisher, '')}"
        begun = self._now()
        counted.waiting += 1
        counted.kind.settle().wait(begun)
        try:
            level = await self._levels.enter(flow.level, name)
        finally:
            counted.waiting -= 1
            counted.kind.settle().wait(self._now(), -1)
        waited = self._now() - begun
        counted.waits.observe(waited)
        self._metrics.waits.seconds.observe(waited)
        return level

    def _refused(self, request: Request, flow: Flow, rejected: RejectedError) -> Response:
        self._metrics.rejected(flow.level, flow.schema, rejected.reason)
        if rejected.reason == "concurrency-limit" and log.isEnabledFor(_REJECTION_LEVEL):
            log.log(_REJECTION_LEVEL, "%s", self._no_seat(flow, request.user, request.info))
        retry = [("Retry-After", "1")]
        return text(429, "Too many requests, please try again later.\n", retry)

    def _no_seat(self, flow: Flow, user: User, info: RequestInfo) -> str:
        """Has upstream's words (queueset.go), with a shorter description of the request."""
        level = self._levels.levels[flow.level]
        return (
            f'QS({flow.level}): rejecting request "{flow.schema}" {info.verb} {info.path} of {user.name} '
            f"because 1 seats are asked for, {level.occupancy.running} seats are in use "
            f"({level.occupancy.running} are executing) and the limit is {level.limit}"
        )


def _with_headers(response: Response, flow: Flow) -> Response:
    response.headers.extend(flow.headers)
    return response


def with_fairness(handler: Handler, fairness: Fairness) -> Handler:
    return partial(fairness.serve, handler)
