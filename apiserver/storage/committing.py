"""Committing a batch of changes: read the states, decide, write the events and the projection."""

from collections.abc import Iterable, Sequence

import orjson

from apiserver.storage.deciding import Outcome, State, decide
from apiserver.storage.records import EMPTY_REVISION, Change, Entry, Key
from apiserver.storage.statements import Row, Session, entry_row, event_row


def commit(session: Session, changes: Sequence[Change]) -> list[Outcome]:
    """Decide `changes` inside the transaction of `session` and write what they come to."""
    found = session.all("revision")[0][0] or EMPTY_REVISION
    keys = list(dict.fromkeys(change.key for change in changes))
    states = _read(session, keys)
    before = {key for key in keys if states[key].current is not None}
    decision = decide(changes, states, found)
    if decision.events:
        touched = dict.fromkeys(event.key for event, _ in decision.events)
        session.insert("insert_event", [event_row(event, last) for event, last in decision.events])
        _project(session, [(key, states[key].current) for key in touched], before)
    return decision.outcomes


def _read(session: Session, keys: Sequence[Key]) -> dict[Key, State]:
    asked = orjson.dumps([(key.resource, key.namespace, key.name) for key in keys]).decode()
    states = {}
    for place, uid, revision, created, value, last in session.all("states", keys=asked):
        key = keys[place]
        current = None if revision is None else Entry(key, uid, revision, created, value)
        states[key] = State(current, last or 0)
    return states


def _project(session: Session, states: Iterable[tuple[Key, Entry | None]], before: set[Key]) -> None:
    put: list[Row] = []
    removed: list[Row] = []
    for key, entry in states:
        if entry is not None:
            put.append(entry_row(entry))
        elif key in before:
            removed.append((key.resource, key.namespace, key.name))
    if put:
        session.insert("put_object", put)
    if removed:
        session.many("remove_object", removed)
