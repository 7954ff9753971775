"""Puts the writes of the log and what happened to components into one order."""

import heapq
from collections.abc import Iterable

from kubeskew.apiserver.storage.records import ComponentEvent, Event

Moment = Event | ComponentEvent


def merged(events: Iterable[Event], components: Iterable[ComponentEvent]) -> Iterable[Moment]:
    """Returns both in one order: a component's event comes right after the revision it names."""
    return heapq.merge(events, components, key=_place)


def _place(moment: Moment) -> tuple[int, bool]:
    return moment.revision, isinstance(moment, ComponentEvent)
