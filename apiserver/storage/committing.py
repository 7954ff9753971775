"""Commits a batch of changes: reads the states, decides, writes the events and the projection."""

from collections.abc import Iterable, Mapping, Sequence

import orjson

from kubeskew.apiserver.storage.checksums import entry_sum, event_sum, row_state_sum
from kubeskew.apiserver.storage.compare_and_swap import BatchOutcome, Outcome, State, after, decide
from kubeskew.apiserver.storage.failures import DamageError
from kubeskew.apiserver.storage.records import EMPTY_REVISION, Change, Entry, Key, Verb
from kubeskew.apiserver.storage.sessions import Row, Session
from kubeskew.apiserver.storage.statements import entry_row, event_row


def commit(session: Session, changes: Sequence[Change], floor: int, known: int) -> list[Outcome]:
    """Decides `changes` inside the transaction of `session` and writes what they come to.

    Revisions count on from the newest event, or from `floor` if that is newer. Raises DamageError if events
    are gone that were `known`, so that no revision is given twice, or if an object is gone that the log has.
    """
    rows = session.all("newest")
    newest, digest = rows[0] if rows else (EMPTY_REVISION, 0)
    head = max(newest, floor)
    if head < known:
        raise DamageError(
            f"the store is damaged: the log ends at revision {head}, though {known} was committed"
        )
    keys = list(dict.fromkeys(change.key for change in changes))
    states = _read(session, keys)
    before = {key: state.current for key, state in states.items()}
    decided = decide(changes, states, head)
    if decided.events:
        touched = dict.fromkeys(event.key for event, _ in decided.events)
        session.insert("insert_event", _event_rows(decided, before, digest))
        existed = {key for key in keys if before[key] is not None}
        _project(session, [(key, states[key].current) for key in touched], existed)
    return decided.outcomes


def _event_rows(decided: BatchOutcome, before: Mapping[Key, Entry | None], digest: int) -> list[Row]:
    """Returns the events as rows, each with the digest of all objects after it and the checksum of itself."""
    sums: dict[Key, int] = {}  # of the objects as the events so far have left them
    rows = []
    for event, last in decided.events:
        key = event.key
        old = sums.get(key)
        if old is None:
            entry = before[key]
            old = 0 if entry is None else entry_sum(entry)
        left = after(event)
        state = 0 if left is None else entry_sum(left)
        digest += state - old
        sums[key] = state
        row = event_row(event, last, digest)
        if event.verb is Verb.DELETE:
            state = row_state_sum(row)
        rows.append((*row, event_sum(state, row)))
    return rows


def _read(session: Session, keys: Sequence[Key]) -> dict[Key, State]:
    asked = orjson.dumps([(key.resource, key.namespace, key.name) for key in keys]).decode()
    states = {}
    for place, uid, revision, created, value, last in session.all("states", keys=asked):
        key = keys[place]
        current = None
        if revision is not None:
            current = Entry(key, uid, revision, created, value)
        elif last is not None and last < 0:
            what = f"{key.resource} {key.path} is not in the table of objects"
            raise DamageError(f"the store is damaged: {what}, though the log has it at revision {-last}")
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
