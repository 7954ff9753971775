"""Records of the event store: changes, entries and events, in one order with the events of components."""

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

EMPTY_REVISION = 1  # etcd's answer before the first write, which then gets 2
STORE = "store"  # component of events of the log itself, on its time line
FORKED, REWOUND = "forked", "rewound"  # on the time line where a log was branched off
DAMAGED = b"\xff"  # stands for a value that is not what was written: no object is encoded so


Place = tuple[int, int]  # of an event: its revision and sub-revision


class Verb(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Key(NamedTuple):
    """`resource` is `pods` or `deployments.apps`; `namespace` is empty if the object has none."""

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Lists are ordered by it: it is the part of etcd's key after the resource."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Author(NamedTuple):
    """The user agent names component and version; `server_version` is the emulated version of the API server
    that encoded the object.
    """

    user: str
    component: str
    component_version: str
    server_version: str
    request_id: str


class Change(NamedTuple):
    """`value` is the object in its storage version *without* resourceVersion.

    `expected` is the revision the object must be at, 0 if it must not exist. For DELETE, `value` is the
    last state.

    Without it (by etcd's API) the log takes its newest state and uid.

    etcd's API alone gives the others: `lease` ends the object; `created` and `updates` are those of an object
    that goes on under another key, else `created` is 0 and the log knows them.


    """

    verb: Verb
    key: Key
    uid: str
    value: bytes
    expected: int
    author: Author
    time: datetime
    lease: int = 0
    created: int = 0
    updates: int = 0


class Transaction(NamedTuple):
    """Changes that get one revision together, or none of them any; by etcd's API alone.

    No object is changed twice. `expected` has further objects with the revisions at which they must be, 0 for
    none. If `since` is not None, nothing newer than it may have been written. `revokes` is a lease that ends,
    or 0; if `renewals` is not None, it must not have been renewed more often. `leases` have to be there.
    """

    changes: Sequence[Change]
    expected: Sequence[tuple[Key, int]] = ()
    since: int | None = None
    revokes: int = 0
    renewals: int | None = None
    leases: Sequence[int] = ()


class Lease(NamedTuple):
    """`ttl` is in seconds. `renewals` counts grants and renewals, and `renewed` is the time of the last one,
    if it is known.
    """

    id: int
    ttl: int
    renewals: int = 0
    renewed: datetime | None = None


class Event(NamedTuple):
    """Events never change, but that the log may learn an author later.

    `previous` is the revision of the object before, 0 for a create.

    `previous_value` is the state before (None for a create): a watch with a selector needs it.
    `created` is the revision of the create event of the same object, so that a compacted log still knows it.
    `sub` numbers the events of one revision, from 0: only transactions of etcd's API have more than one.
    `updates` counts the updates since the create; with a deletion, it and `lease` are the last state's.


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
    sub: int = 0
    updates: int = 0
    lease: int = 0


class Entry(NamedTuple):
    """`created` is the revision of the create event, `updates` counts the updates since then."""

    key: Key
    uid: str
    revision: int
    created: int
    value: bytes
    updates: int = 0
    lease: int = 0


@dataclass(frozen=True, slots=True)
class ComponentEvent:
    """Components start, stop, are killed, change version or gates, or have faults, after `revision`."""

    revision: int
    component: str
    what: str  # started, stopped, killed, failed, crashed, fault-set, …; of the STORE, FORKED or REWOUND
    version: str
    gates: str  # as the flag: A=true,B=false
    time: datetime
    detail: str = ""  # why it failed; of a fault its id, and what it did to which call


@dataclass(frozen=True, slots=True)
class Page:
    """Entries are a part of a list, in key order, of one `revision`.

    `remaining` counts what follows (matching or not), `last` is the last key looked at if anything does.


    """

    revision: int
    entries: Sequence[Entry]
    last: Key | None = None
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class Branch:
    """`source_revision` is the newest revision of the log that this one was branched off from."""

    revision: int
    events: int
    objects: int
    source_revision: int


Moment = Event | ComponentEvent


def merged(events: Iterable[Event], components: Iterable[ComponentEvent]) -> Iterable[Moment]:
    """Component events come right after the revision that they name."""
    return heapq.merge(events, components, key=_place)


def _place(moment: Moment) -> tuple[int, bool]:
    return moment.revision, isinstance(moment, ComponentEvent)
