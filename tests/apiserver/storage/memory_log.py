"""A log in plain Python: no file, no thread, no SQL.

For runs in virtual time, which cannot see foreign threads, and as the model that the SQL log is tested
against. Every append is a transaction of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from kubeskew.apiserver.storage.compare_and_swap import State, check, decide
from kubeskew.apiserver.storage.failures import CompactedError, FutureRevisionError, StorageError
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Change, ComponentEvent, Entry, Event, Key, Verb
from kubeskew.apiserver.storage.replay import fold


class MemoryLog:
    """`interfaces.Log` over a list."""

    shared = False
    healthy = True

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._states: dict[Key, State] = {}
        self._timeline: list[ComponentEvent] = []
        self._newest = EMPTY_REVISION
        self._compacted = 0
        self._closed = False
        self._listener: Callable[[Sequence[Event]], None] = _nobody

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        self._listener = listener

    async def append(self, change: Change) -> Event:
        check(change)
        if self._closed:
            raise StorageError("the store is closed")
        self._states.setdefault(change.key, State(None, 0))
        outcome = decide([change], self._states, self._newest).outcomes[0]
        if not isinstance(outcome, Event):
            raise outcome
        self._newest = outcome.revision
        self._events.append(outcome)
        self._listener([outcome])
        return outcome

    async def revision(self) -> int:
        return self._newest

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        self._check(revision)
        found = (
            event
            for event in self._events
            if event.revision > revision
            and (until is None or event.revision <= until)
            and resource in (None, event.key.resource)
        )
        return [event for event, _ in zip(found, range(limit), strict=False)]

    def _check(self, revision: int) -> None:
        if revision < self._compacted:
            raise CompactedError(revision, self._compacted)

    async def compacted(self) -> int:
        return self._compacted

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        return self._newest, [state.current for state in self._states.values() if state.current]

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        self._check(revision)
        if revision > self._newest:
            raise FutureRevisionError(revision, self._newest)
        then = fold(event for event in self._events if event.revision <= revision)
        found = [
            entry
            for key, entry in then.items()
            if key.resource == resource and namespace in (None, key.namespace)
        ]
        return sorted(found, key=lambda entry: entry.key.path)

    async def compact(self, revision: int) -> None:
        if revision > self._newest:
            raise FutureRevisionError(revision, self._newest)
        if revision <= self._compacted:
            return
        ended = {event.previous for event in self._events if event.revision <= revision}
        self._events = [
            event
            for event in self._events
            if event.revision not in ended
            and not (
                event.verb is Verb.DELETE and event.revision <= revision and event.revision < self._newest
            )
        ]
        self._compacted = revision

    async def record(self, event: ComponentEvent) -> None:
        self._timeline.append(replace(event, revision=self._newest))

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        return [event for event in self._timeline if event.revision >= since]

    async def close(self) -> None:
        self._closed = True


def _nobody(events: Sequence[Event]) -> None:
    """The listener before there is one."""
