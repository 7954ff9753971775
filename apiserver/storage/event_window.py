"""Keeps the newest events in memory without a gap, for the start of most watches and to undo a little."""

from collections.abc import Sequence

from kubeskew.apiserver.storage.records import Entry, Event, Key, Verb

WINDOW_EVENTS_MAX = 10_000
WINDOW_BYTES_MAX = 32 << 20  # of values, those before the events included


class Window:
    """Holds every event in (`start`, the newest]."""

    def __init__(
        self, start: int, events_max: int = WINDOW_EVENTS_MAX, bytes_max: int = WINDOW_BYTES_MAX
    ) -> None:
        self.start = start
        self._events: list[Event] = []
        self._bytes = 0
        self._events_max = events_max
        self._bytes_max = bytes_max

    def extend(self, events: Sequence[Event]) -> None:
        """Adds what follows; when that is too much, forgets the oldest in big steps, for each copies the
        rest.
        """
        self._events.extend(events)
        self._bytes += sum(map(size, events))
        if len(self._events) > self._events_max or self._bytes > self._bytes_max:
            self._shrink()

    def _shrink(self) -> None:
        dropped = 0
        events_kept, bytes_kept = self._events_max * 3 // 4, self._bytes_max * 3 // 4
        while self._bytes > bytes_kept or len(self._events) - dropped > events_kept:
            self._bytes -= size(self._events[dropped])
            dropped += 1
        if dropped:
            self.start = self._events[dropped - 1].revision
            del self._events[:dropped]

    def since(self, revision: int) -> Sequence[Event]:
        """Returns the events newer than `revision`, which must not be older than `start`."""
        return self._events[revision - self.start :]  # revisions have no gaps

    def undone(self, revision: int, resource: str, namespace: str | None) -> dict[Key, Entry | None]:
        """Returns the states at `revision` of the objects that have changed since (None: absent)."""
        states: dict[Key, Entry | None] = {}
        for event in self.since(revision):
            key = event.key
            wanted = key.resource == resource and (namespace is None or key.namespace == namespace)
            if wanted and key not in states:
                states[key] = before(event)
        return states


def before(event: Event) -> Entry | None:
    """Returns the object as it was before `event`."""
    if event.verb is Verb.CREATE or event.previous_value is None:
        return None
    return Entry(event.key, event.uid, event.previous, event.created, event.previous_value)


def size(event: Event) -> int:
    """Returns the bytes of the values that `event` keeps alive."""
    return len(event.value) + len(event.previous_value or b"")
