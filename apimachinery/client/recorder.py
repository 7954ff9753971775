"""Records events, a component's messages to people about an object, and writes them in the background.

As in k8s.io/client-go/tools/record, an event that repeats is counted on the existing one (count,
lastTimestamp). Ten within ten minutes that differ only in their message are combined. After 25 events about
one object, one is written every five minutes. With `modern=True` events are written as by
k8s.io/client-go/tools/events (events.k8s.io/v1, with an action).
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.client.refs import EVENTS, EVENTS_V1
from kubeskew.apimachinery.client.rest import CONNECTION_ERRORS, MERGE_PATCH, APIClient
from kubeskew.apimachinery.clock import Clock, micro_timestamp, timestamp
from kubeskew.apimachinery.errors import StatusError
from kubeskew.apimachinery.objects import Object

log = logging.getLogger(__name__)

_CACHE_SIZE = 4096  # client-go, events_cache.go: maxLruCacheEntries
_QUEUE_SIZE = 1000  # client-go: maxQueuedEvents; later ones are dropped
_SIMILAR_EVENTS = 10  # of one group, before they are combined
_SIMILAR_SECONDS = 600.0
_SPAM_BURST, _SPAM_SECONDS = 25.0, 300.0  # about one object
_TRIES = 12
_RETRY_SECONDS = 0.5
_MESSAGE_LIMIT = 1024

_OBJECT = ("kind", "namespace", "name", "uid", "apiVersion")
_ABOUT = (*_OBJECT, "fieldPath")

_Seen = tuple[Any, ...]


@dataclass(slots=True)
class _Group:
    """Messages of one reason about one object."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass(slots=True)
class _Allowance:
    """Limits the number of events about one object."""

    left: float
    at: float


def object_reference(obj: Object) -> Object:
    """`obj` must have its kind and apiVersion; fields that are empty are left out."""
    metadata = obj["metadata"]
    reference = {
        "kind": obj.get("kind", ""),
        "namespace": metadata.get("namespace", ""),
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "apiVersion": obj.get("apiVersion", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    return {key: value for key, value in reference.items() if value}


class EventRecorder:
    """Records events of one component; `await close()` writes what is still queued."""

    def __init__(
        self, client: APIClient, clock: Clock, component: str, host: str = "", *, modern: bool = False
    ) -> None:
        self._client = client
        self._clock = clock
        self._component = component
        self._host = host
        self._modern = modern
        self._known: OrderedDict[_Seen, Object] = OrderedDict()  # events on the server, by content
        self._groups: OrderedDict[_Seen, _Group] = OrderedDict()
        self._allowances: OrderedDict[_Seen, _Allowance] = OrderedDict()
        self._queue: asyncio.Queue[Object] = asyncio.Queue(_QUEUE_SIZE)
        self._writer: asyncio.Task[None] | None = None
        self._serial = 0

    def event(
        self,
        obj: Object,
        kind: str,
        reason: str,
        message: str,
        *,
        action: str = "",
        field_path: str = "",
        related: Object | None = None,
    ) -> None:
        """Records an event about `obj` (or its part at `field_path`); `kind` is Normal or Warning.

        `related` is another object that the event concerns, only in modern events. Never waits, never raises.
        """
        about = object_reference(obj) | ({"fieldPath": field_path} if field_path else {})
        said = message[:_MESSAGE_LIMIT] if self._modern else message  # which servers do not bound
        event = self._event(about, kind, reason, said, action)
        if related is not None and self._modern:
            event["related"] = object_reference(related)
        with contextlib.suppress(asyncio.QueueFull):
            self._queue.put_nowait(event)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_all(), name=f"events of {self._component}")

    async def flush(self) -> None:
        """Waits until all events so far are written or dropped."""
        if self._writer is not None:
            await self._queue.join()

    async def close(self, timeout: float = 1.0) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self.flush()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def _event(self, about: Object, kind: str, reason: str, message: str, action: str) -> Object:
        now = self._clock.now()
        self._serial += 1
        # Upstream: nanoseconds of now in hex. The serial distinguishes events in one microsecond (or under a
        # clock that stands still).
        stamp = int(now.timestamp() * 1_000_000) * 1000 + self._serial % 1000
        event: Object = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about['name']}.{stamp:x}",
                "namespace": about.get("namespace") or "default",
            },
            "type": kind,
            "reason": reason,
        }
        if self._modern:
            return event | {
                "apiVersion": EVENTS_V1.api_version,
                "eventTime": micro_timestamp(now),
                "regarding": about,
                "note": message,
                "action": action,
                "reportingController": self._component,
                "reportingInstance": f"{self._component}-{self._host}",
            }
        return event | {
            "involvedObject": about,
            "message": message,
            "source": {"component": self._component} | ({"host": self._host} if self._host else {}),
            "reportingComponent": self._component,
            "reportingInstance": self._host,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "count": 1,
        }

    async def _write_all(self) -> None:
        while True:
            event = await self._queue.get()
            try:
                await self._write(event)
            except Exception:
                log.exception("cannot write event")
            finally:
                self._queue.task_done()

    async def _write(self, event: Object) -> None:
        if not self._modern:
            self._combine(event)
            if self._is_spam(event):
                self._count_unwritten(event)
                return
        for _ in range(_TRIES):
            try:
                await self._create_or_count(event)
            except CONNECTION_ERRORS as error:
                log.debug("event not written yet: %s", error)
                await self._clock.sleep(_RETRY_SECONDS)
            except StatusError as error:
                everyday = error.code in (404, 409) or "because it is being terminated" in error.message
                log.log(
                    logging.DEBUG if everyday else logging.ERROR,
                    "Server rejected event (will not retry!): %s",
                    error,
                )
                return
            else:
                return

    def _combine(self, event: Object) -> None:
        """Replaces events of one group from the tenth on by one with `(combined from similar events)` in its
        message."""
        about = event["involvedObject"]
        group_key = (about.get("uid"), about["name"], event["type"], event["reason"])
        group = _remembered(self._groups, group_key) or _Group()
        _remember(self._groups, group_key, group)
        now = self._clock.monotonic()
        if now - group.last > _SIMILAR_SECONDS:
            group.messages.clear()
        group.last = now
        group.messages.add(event["message"])
        if len(group.messages) >= _SIMILAR_EVENTS:
            event["message"] = f"(combined from similar events): {event['message']}"

    def _is_spam(self, event: Object) -> bool:
        now = self._clock.monotonic()
        key = tuple(event["involvedObject"].get(name) for name in _OBJECT)
        allowance = _remembered(self._allowances, key) or _Allowance(_SPAM_BURST, now)
        _remember(self._allowances, key, allowance)
        allowance.left = min(_SPAM_BURST, allowance.left + (now - allowance.at) / _SPAM_SECONDS)
        allowance.at = now
        if allowance.left < 1:
            return True
        allowance.left -= 1
        return False

    def _count_unwritten(self, event: Object) -> None:
        known = _remembered(self._known, self._content(event))
        if known is not None:
            known["count"] = (known.get("count") or 1) + 1

    async def _create_or_count(self, event: Object) -> None:
        seen = self._content(event)
        known = _remembered(self._known, seen)
        ref = EVENTS_V1 if self._modern else EVENTS
        namespace = event["metadata"]["namespace"]
        if known is not None:
            try:
                patched = await self._client.patch(
                    ref, known["metadata"]["name"], namespace, self._again(known, event), MERGE_PATCH
                )
            except StatusError as error:
                if error.code != 404:  # it has expired: start a new one
                    raise
            else:
                _remember(self._known, seen, _counted(patched))
                return
        _remember(self._known, seen, _counted(await self._client.create(ref, event)))

    def _again(self, known: Object, event: Object) -> Object:
        if self._modern:
            count = (known.get("series") or {}).get("count") or 1
            return {"series": {"count": count + 1, "lastObservedTime": event["eventTime"]}}
        return {
            "count": (known.get("count") or 1) + 1,
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
        }

    def _content(self, event: Object) -> _Seen:
        """Fields that make two events the same one; the texts of combined events do not count."""
        about = event["regarding"] if self._modern else event["involvedObject"]
        text = event["note"] if self._modern else event["message"]
        if text.startswith("(combined from similar events): "):
            text = ""
        place = tuple(about.get(name) for name in _ABOUT)
        return (*place, event["type"], event["reason"], text)


def _counted(event: Object) -> Object:
    """Only the fields needed to count the event up, because thousands are kept."""
    known: Object = {key: event[key] for key in ("count", "series") if key in event}
    return known | {"metadata": {"name": event["metadata"]["name"]}}


def _remembered(cache: OrderedDict[_Seen, Any], key: _Seen) -> Any:
    if key in cache:
        cache.move_to_end(key)
    return cache.get(key)


def _remember(cache: OrderedDict[_Seen, Any], key: _Seen, value: Any) -> None:
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _CACHE_SIZE:
        cache.popitem(last=False)
