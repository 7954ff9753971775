"""The event store's types and the two interfaces above SQL: `Log` (append, read) and `Store` (semantics).

Handlers and the registry know `Store`; the store knows `Log`; only the implementation of `Log` knows SQL.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple, Protocol, Self

EMPTY_REVISION = 1  # what etcd answers before the first write, which then gets 2


class Verb(StrEnum):
    """What an event did to its object."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Key(NamedTuple):
    """One object's place: `resource` as `pods` or `deployments.apps`, `namespace` empty if it has none."""

    resource: str
    namespace: str
    name: str

    @property
    def path(self) -> str:
        """What lists are ordered by: the part of etcd's key after the resource."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Author(NamedTuple):
    """Who wrote: the authenticated user, the component and its version as its user agent tells them,

    the emulated version of the API server that encoded the object, and the request's id.
    """

    user: str
    component: str
    component_version: str
    server_version: str
    request_id: str


class Change(NamedTuple):
    """A write that is asked for. `value` is the object in its storage version *without* resourceVersion.

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
    """An immutable entry of the log. `previous` is the revision of the object before, 0 for a create.

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
    """A current object: what the projection holds. `created` is the revision of its create event."""

    key: Key
    uid: str
    revision: int
    created: int
    value: bytes


@dataclass(frozen=True, slots=True)
class ComponentEvent:
    """A component's start, stop, kill, version change or gate flip, after `revision` of the log."""

    revision: int
    component: str
    what: str  # started, stopped, killed, failed
    version: str
    gates: str  # as the flag: A=true,B=false
    time: datetime


class StorageError(Exception):
    """The database did not do it: disk full, locked too long, corrupt, closed. Nothing was acknowledged."""


class ConflictError(Exception):
    """The object is not at the expected revision; `current` is what it is (None: it does not exist)."""

    def __init__(self, key: Key, current: Entry | None) -> None:
        super().__init__(f"{key} is at {current.revision if current else 0}")
        self.key = key
        self.current = current


class CompactedError(Exception):
    """The revision asked for is older than the horizon."""

    def __init__(self, asked: int, horizon: int) -> None:
        super().__init__(f"revision {asked} is older than {horizon}")
        self.asked = asked
        self.horizon = horizon


class FutureRevisionError(Exception):
    """The revision asked for has not been written yet."""

    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"revision {asked} is newer than {current}")
        self.asked = asked
        self.current = current


class SlowWatcherError(Exception):
    """The watcher fell behind its bound and was ended."""


class Log(Protocol):
    """The log in SQL. Every method may be called concurrently.

    `append` groups its callers into transactions. Whatever the database refuses is a StorageError.
    The revision of an empty log is EMPTY_REVISION, as etcd's; the first event is the one after.
    """

    @property
    def shared(self) -> bool:
        """Whether another process can write the same log."""
        ...

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Call `listener` with every batch this process commits, in order, before its appenders return.

        There is one listener; it runs on the event loop and must neither block nor raise.
        """
        ...

    async def append(self, change: Change) -> Event:
        """Write one event and its projection; returns after the commit. Raises ConflictError."""
        ...

    async def revision(self) -> int:
        """The newest committed revision, by whichever process."""
        ...

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        """Events newer than `revision` and not newer than `until`, oldest first, of one resource or of all.

        Fewer than `limit` means that there are no more. Raises CompactedError.
        """
        ...

    async def compacted(self) -> int:
        """The revision of the last compaction, 0 before the first."""
        ...

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        """The projection, and the revision it is at."""
        ...

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """The objects of `resource` as of `revision`, by key. Raises CompactedError, FutureRevisionError."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget states that were superseded at or before `revision`."""
        ...

    async def record(self, event: ComponentEvent) -> None:
        """Put a component's event on the time line (its `revision` is filled in)."""
        ...

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        """Component events at or after the revision `since` of the log, oldest first."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, then let go of the database."""
        ...


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, in key order, of one `revision`.

    `remaining` counts what follows (matching or not), `last` is the last key looked at if anything does.
    """

    revision: int
    entries: Sequence[Entry]
    last: Key | None = None
    remaining: int = 0


class Watch(Protocol):
    """A cursor over the log. Iterating gives batches of events without gap or reordering.

    An empty batch is a progress notification: everything up to `revision` has been delivered. It comes
    about once a minute while nothing happens, and after `request_progress`. Iteration ends after `close`,
    and raises SlowWatcherError, CompactedError or StorageError.
    """

    @property
    def revision(self) -> int:
        """Everything up to this revision has been delivered."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    def request_progress(self) -> None:
        """Make the next batch come at once, empty if there is nothing to deliver."""
        ...

    def close(self) -> None:
        """End the iteration; idempotent."""
        ...


class Store(Protocol):
    """The objects and their history, as handlers need them.

    Reads cost what they answer, not what is stored.
    """

    @property
    def revision(self) -> int:
        """The newest revision this server has applied."""
        ...

    async def refresh(self) -> int:
        """Apply everything committed by now, by any server; returns the revision (a consistent read's)."""
        ...

    async def wait_for(self, revision: int, timeout: float) -> None:
        """Return once `revision` is applied. Raises FutureRevisionError after `timeout` seconds."""
        ...

    def get(self, key: Key) -> Entry | None:
        """The current object, from memory."""
        ...

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Callable[[Entry], bool] | None = None,
    ) -> Page:
        """Current objects in key order (etcd's: by `namespace/name`), from memory.

        `limit` 0 means all. `matches` filters before counting to `limit`.
        """
        ...

    async def list_at(
        self,
        revision: int,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Callable[[Entry], bool] | None = None,
    ) -> Page:
        """As `list`, of the objects as of `revision`. Raises CompactedError, FutureRevisionError."""
        ...

    async def write(self, change: Change) -> Event:
        """Commit one change, then apply it. Raises ConflictError."""
        ...

    def watch(self, resource: str, namespace: str | None, name: str | None, since: int) -> Watch:
        """Events of a resource newer than `since`. Raises CompactedError, FutureRevisionError."""
        ...

    def changed(self, resource: str) -> int:
        """The revision at which any object of `resource` last changed, as far as this server remembers."""
        ...

    def follow(self, resource: str, listener: Callable[[Key], None]) -> None:
        """Call `listener` with the key of every object of `resource` that comes, changes or goes from now on.

        It runs on the event loop, after memory has changed, and must neither block nor raise.
        """
        ...

    def horizon(self, resource: str) -> int:
        """The oldest revision whose successors are all known for `resource`."""
        ...

    def raise_horizon(self, resource: str, revision: int) -> None:
        """`resource` came to be at `revision` (a custom resource's): older revisions are compacted for it."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget what was superseded at or before `revision`. Raises FutureRevisionError."""
        ...

    async def close(self) -> None:
        """End every watch, finish what was accepted, close the log."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
