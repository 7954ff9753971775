"""Interfaces of the event store above SQL, `Log` (append, read) and `Store` (semantics), and its errors.

Handlers and the registry know `Store`; the store knows `Log`; only the implementation of `Log` knows SQL.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol, Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.records import (
    Author,
    Change,
    ComponentEvent,
    Entry,
    Event,
    Key,
    Lease,
    Page,
    Place,
    Transaction,
)


class StorageError(Exception):
    """Raised when the database fails: disk full, locked too long, corrupt, closed. Nothing was
    acknowledged.
    """

    refused = False  # whether the database would have refused any other change, too


ADVICE = (
    "`kubeskew replay` lists what is wrong; with the cluster down, `kubeskew repair --from-log` rebuilds "
    "the table of objects from the log"
)


class DamageError(StorageError):
    """Raised when the store is not what was written to it. The message advises what to do."""

    def __init__(self, damage: str, advice: str = ADVICE) -> None:
        super().__init__(f"{damage}. {advice}")


class RevisionMismatchError(Exception):
    """The object is not at the expected revision; `current` is its entry (None: it does not exist).

    It never reaches a client: an update is tried again on the newer object, a create answers AlreadyExists
    (`apiserver/registry/generic/registry.py`). The 409 of a client's own resourceVersion is
    `errors.conflict`.

    """

    def __init__(self, key: Key, current: Entry | None) -> None:
        super().__init__(f"{key} is at {current.revision if current else 0}")
        self.key = key
        self.current = current


class WrittenSinceError(Exception):
    """A transaction wants nothing newer than `since`, but the newest revision is `current`."""

    def __init__(self, since: int, current: int) -> None:
        super().__init__(f"revision {current} is newer than {since}")
        self.since = since
        self.current = current


class LeaseChangedError(Exception):
    """A lease that a transaction rests on has ended, or was renewed."""

    def __init__(self, lease: int) -> None:
        super().__init__(f"lease {lease:x} has ended or was renewed")
        self.lease = lease


class CompactedError(Exception):
    def __init__(self, asked: int, horizon: int) -> None:
        super().__init__(f"revision {asked} is older than {horizon}")
        self.asked = asked
        self.horizon = horizon


class FutureRevisionError(Exception):
    def __init__(self, asked: int, current: int) -> None:
        super().__init__(f"revision {asked} is newer than {current}")
        self.asked = asked
        self.current = current


class SlowWatcherError(Exception):
    """The watcher fell behind its bound and was ended."""


class Log(Protocol):
    """All methods may be called concurrently.

    `append` groups its callers into transactions. Refusals of the database are StorageErrors. The revision of
    an empty log is EMPTY_REVISION, as etcd's; the first event is the one after.


    """

    @property
    def shared(self) -> bool:
        """True if another process can write the same log."""
        ...

    @property
    def healthy(self) -> bool:
        """False after the database failed the last write."""
        ...

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Calls `listener` with each batch that this process commits, in order, before its appenders return.

        Listeners are called in the order in which they came; they run on the event loop and must neither
        block nor raise.

        """
        ...

    async def append(self, change: Change) -> Event:
        """Writes one event and its projection; returns after the commit. Raises RevisionMismatchError."""
        ...

    async def transact(self, transaction: Transaction) -> tuple[int, Sequence[Event]]:
        """Writes all changes at one revision, which comes first in the result; without changes it is the
        newest. Raises RevisionMismatchError, WrittenSinceError, LeaseChangedError; then nothing was written.
        """
        ...

    async def attribute(self, authors: Sequence[tuple[Place, Author]]) -> None:
        """Keeps who wrote events, which all readers get from then on in the place of the author that they
        were written with. The first author of an event counts; places without one are left out.
        """
        ...

    async def shared_revisions(self) -> Sequence[int]:
        """Lists revisions that are those of several events."""
        ...

    async def grant(self, lease: Lease) -> Lease | None:
        """Keeps a lease of etcd's API until a transaction revokes it, and returns it as it is kept; None if
        there is one of its id.
        """
        ...

    async def renew(self, leases: Sequence[int], time: datetime) -> Mapping[int, int]:
        """Counts a renewal of each lease that is there, and returns the counts."""
        ...

    async def leases(self) -> Sequence[Lease]:
        """Lists what was granted and not revoked, by id."""
        ...

    async def size(self) -> int:
        """Bytes that the log takes, about."""
        ...

    async def revision(self) -> int:
        """Any process may have committed it."""
        ...

    async def wait_for_others(self, clock: Clock) -> None:
        """Waits until another process may have written: until the database reports it, or for a while."""
        ...

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        """Reads events newer than `revision` and not newer than `until`, oldest first, of one resource or of
        all.

        All events of a revision come together, so that there may be more than `limit`. Fewer mean that there
        are no more. Raises CompactedError.

        """
        ...

    async def compacted(self) -> int:
        """It is 0 before the first compaction."""
        ...

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        """The revision is that of the projection."""
        ...

    async def at(self, revision: int, resource: str | None, namespace: str | None = None) -> Sequence[Entry]:
        """Sorts by resource and key; None stands for all resources, of all namespaces. Raises CompactedError,
        FutureRevisionError.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forgets states that were superseded at or before `revision`."""
        ...

    async def record(self, event: ComponentEvent) -> None:
        """Puts a component's event on the time line (its `revision` is filled in)."""
        ...

    async def timeline(self, since: int = 0) -> Sequence[ComponentEvent]:
        """Only events at or after the revision `since` of the log count; the oldest comes first."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted, then closes the database."""
        ...


class Others(Protocol):
    """The other workers of the same server, whose log one process writes for all."""

    async def ask(self, question: str) -> Sequence[Any]:
        """Their answers; of those alone that have one in time."""
        ...

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """One worker at a time is in the context of that name. Entering raises StorageError."""
        ...


class Watch(Protocol):
    """Iteration yields batches of events without gap or reordering.

    An empty batch is a progress notification: everything up to `revision` has been delivered. It comes
    after `request_progress`. Iteration ends after `close`, and raises SlowWatcherError, CompactedError or
    StorageError.


    """

    @property
    def revision(self) -> int:
        """Everything up to this revision has been delivered."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    def request_progress(self) -> None:
        """Makes the next batch come at once, empty if there is nothing to deliver."""
        ...

    def close(self) -> None:
        """Ends the iteration; idempotent."""
        ...


class Store(Protocol):
    """Keeps the objects and their history, as handlers need them.

    Reads cost as much as their answers are long, however much is stored.


    """

    received: dict[str, int]  # events that this server has applied, by resource
    shared_revisions: set[int]  # those of several events: they identify no object

    @property
    def revision(self) -> int:
        """This server has applied everything up to it."""
        ...

    async def refresh(self) -> int:
        """Applies everything committed by now, by any server; returns the revision (a consistent read's)."""
        ...

    async def wait_for(self, revision: int, timeout: float) -> None:
        """Raises FutureRevisionError unless `revision` is applied within `timeout` seconds."""
        ...

    def get(self, key: Key) -> Entry | None:
        """Reads from memory."""
        ...

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Callable[[Entry], bool] | None = None,
    ) -> Page:
        """Lists current objects in key order (etcd's: by `namespace/name`), from memory.

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
        """Lists as `list` does, with the objects as of `revision`. Raises CompactedError,
        FutureRevisionError.
        """
        ...

    async def write(self, change: Change) -> Event:
        """Commits one change, then applies it. Raises RevisionMismatchError."""
        ...

    def watch(self, resource: str, namespace: str | None, name: str | None, since: int) -> Watch:
        """Follows events of a resource newer than `since`. Raises CompactedError, FutureRevisionError."""
        ...

    def changed(self, resource: str) -> int:
        """An object of `resource` changed last at this revision, as far as this server remembers."""
        ...

    def follow(self, resource: str, listener: Callable[[Key], None]) -> None:
        """Calls `listener` with the key of each object of `resource` that comes, changes or goes from now on.

        It runs on the event loop, after memory has changed, and must neither block nor raise.

        """
        ...

    def horizon(self) -> int:
        """Returns the revision that was compacted last: what came after is known."""
        ...

    def cached_since(self, resource: str) -> int:
        """A watch cache of `resource` was filled at this revision, and knows no older event: that at which
        the store was opened, unless `refill` was called.
        """
        ...

    def refill(self, resource: str) -> None:
        """Moves `cached_since` to the newest revision, for a resource that gets a new watch cache."""
        ...

    def fillings(self, resource: str) -> tuple[int, int]:
        """Counts the fillings of the watch cache of `resource`, and the objects in all of them."""
        ...

    def begin_cache(self, resource: str, revision: int) -> None:
        """Says that the watch cache of a custom resource was filled at a revision at the earliest, at which
        its definition was created. Lists at older revisions are answered all the same.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forgets what was superseded at or before `revision`. Raises FutureRevisionError."""
        ...

    async def close(self) -> None:
        """Ends all watches, finishes what was accepted, closes the log."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
