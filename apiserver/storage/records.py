"""Records of the event store: changes, entries and events, in one order with the events of components."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

EMPTY_REVISION = 1  # what etcd answers before the first write, which then gets 2
STORE = "store"  # the component of what happens to the log itself, on its time line
FORKED, REWOUND = "forked", "rewound"  # what is on the time line where a log was branched off
DAMAGED = b"\xff"  # stands for a value that is not what was written: no object is encoded so


class Verb(StrEnum):
    """Names the change of an event to its object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Key(NamedTuple):
    """Identifies an object: `resource` as `pods` or `deployments.apps`, `namespace` empty if it has none."""

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Returns the key by which lists are ordered: the part of etcd's key after the resource."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Author(NamedTuple):
    """Holds the author of a write: the authenticated user, the component and its version as its user agent
    tells them, the emulated version of the API server that encoded the object, and the request's id.
    """

    user: str
    component: str
    component_version: str
    server_version: str
    request_id: str


class Change(NamedTuple):
    """Asks for a write. `value` is the object in its storage version *without* resourceVersion.

    `expected` is the revision the object must be at, 0 if it must not exist. For DELETE, `value` is the
    last state.
    """

    verb: Verb
    key: Key
    uid: str
    value: bytes
    expected: int
    author: Author
    time: datetime


class Event(NamedTuple):
    """Holds an immutable entry of the log. `previous` is the revision of the object before, 0 for a create.

    `previous_value` is the state before (None for a create): a watch with a selector needs it.
    `created` is the revision of the create event of the same object, so that a compacted log still knows it.
    """

    revision: int
    verb: Verb
    key: Key
    uid: str
    value: bytes
    previous: int
    previous_value: bytes | None
    author: Author
    time: datetime
    created: int


class Entry(NamedTuple):
    """Holds a current object, as the projection has it. `created` is the revision of its create event."""

    key: Key
    uid: str
    revision: int
    created: int
    value: bytes


@dataclass(frozen=True, slots=True)
class ComponentEvent:
    """Holds a component's start, stop, kill, change of version or gates, or fault, after `revision`."""

    revision: int
    component: str
    what: str  # started, stopped, killed, failed, crashed, fault-set, …; of the STORE, FORKED or REWOUND
    version: str
    gates: str  # as the flag: A=true,B=false
    time: datetime
    detail: str = ""  # why it failed; of a fault its id, and what it did to which call


@dataclass(frozen=True, slots=True)
class Page:
    """Holds a part of a list, in key order, of one `revision`.

    `remaining` counts what follows (matching or not), `last` is the last key looked at if anything does.
    """

    revision: int
    entries: Sequence[Entry]
    last: Key | None = None
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Branch:
    """Describes a log that was branched off from another: its newest revision, how many events and objects
    it has, and how far the other one goes.
    """

    revision: int
    events: int
    objects: int
    source_revision: int


Moment = Event | ComponentEvent


def merged(events: Iterable[Event], components: Iterable[ComponentEvent]) -> Iterable[Moment]:
    """Returns both in one order: a component's event comes right after the revision it names."""
    return heapq.merge(events, components, key=_place)


def _place(moment: Moment) -> tuple[int, bool]:
    return moment.revision, isinstance(moment, ComponentEvent)
