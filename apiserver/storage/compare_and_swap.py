"""Decides a batch of changes: compares and swaps each, in order, against the states they find. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from kubeskew.apiserver.storage.failures import RevisionMismatchError
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key, Verb

Outcome = Event | RevisionMismatchError


@dataclass(slots=True)
class State:
    """Holds the state of an object: its current entry, and its last event (a deletion's, if it
    has no entry).
    """

    current: Entry | None
    last: int


@dataclass(slots=True)
class BatchOutcome:
    """Holds the result of a batch: one outcome per change, and the events with what each of them
    continues.
    """

    outcomes: list[Outcome] = field(default_factory=list)
    events: list[tuple[Event, int]] = field(default_factory=list)


def decide(changes: Sequence[Change], states: dict[Key, State], head: int) -> BatchOutcome:
    """Decides `changes` over `states`, which is brought up to date; revisions count on from `head`."""
    decided = BatchOutcome()
    for change in changes:
        state = states[change.key]
        current = state.current
        if (current.revision if current else 0) != change.expected:
            decided.outcomes.append(RevisionMismatchError(change.key, current))
            continue
        head += 1
        event = _event(change, current, head)
        decided.outcomes.append(event)
        decided.events.append((event, state.last))
        state.current, state.last = after(event), head
    return decided


def _event(change: Change, current: Entry | None, revision: int) -> Event:
    return Event(
        revision=revision,
        verb=change.verb,
        key=change.key,
        uid=change.uid,
        value=change.value,
        previous=change.expected,
        previous_value=current.value if current else None,
        author=change.author,
        time=change.time,
        created=current.created if current else revision,
    )


def after(event: Event) -> Entry | None:
    """Returns the object that `event` leaves."""
    if event.verb is Verb.DELETE:
        return None
    return Entry(event.key, event.uid, event.revision, event.created, event.value)


def check(change: Change) -> None:
    """Refuses what no state could make sense of. Raises ValueError."""
    if (change.verb is Verb.CREATE) != (change.expected == 0):
        raise ValueError(f"{change.verb} of {change.key} expecting revision {change.expected}")
