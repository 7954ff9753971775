"""The interfaces of the event store above SQL, `Log` (append, read) and `Store` (semantics), and its errors.

Handlers and the registry know `Store`; the store knows `Log`; only the implementation of `Log` knows SQL.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Protocol, Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.records import Change, ComponentEvent, Entry, Event, Key, Page


class StorageError(Exception):
    """The database did not do it: disk full, locked too long, corrupt, closed. Nothing was acknowledged."""

    refused = False  # whether the database would have refused any other change, too


ADVICE = (
    "`kubeskew replay` lists what is wrong; with the cluster down, `kubeskew repair --from-log` rebuilds "
    "the table of objects from the log"
)


class DamageError(StorageError):
    """The store is not what was written to it. What to do about that is part of the message."""

    def __init__(self, damage: str, advice: str = ADVICE) -> None:
        super().__init__(f"{damage}. {advice}")


class RevisionMismatchError(Exception):
    """The object is not at the expected revision; `current` is what it is (None: it does not exist).

    It never reaches a client: an update is tried again on the newer object, a create answers AlreadyExists
    (`apiserver/registry/generic/commit.py`). The 409 of a client's own resourceVersion is `errors.conflict`.
    """

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
    """Keeps the log. Every method may be called concurrently.

    `append` groups its callers into transactions. Whatever the database refuses is a StorageError.
    The revision of an empty log is EMPTY_REVISION, as etcd's; the first event is the one after.
    """

    @property
    def shared(self) -> bool:
        """Decides whether another process can write the same log."""
        ...

    @property
    def healthy(self) -> bool:
        """Decides whether the database did what it was last asked to write."""
        ...

    def subscribe(self, listener: Callable[[Sequence[Event]], None]) -> None:
        """Calls `listener` with every batch this process commits, in order, before its appenders return.

        There is one listener; it runs on the event loop and must neither block nor raise.
        """
        ...

    async def append(self, change: Change) -> Event:
        """Writes one event and its projection; returns after the commit. Raises RevisionMismatchError."""
        ...

    async def revision(self) -> int:
        """Returns the newest committed revision, by whichever process."""
        ...

    async def wait_for_others(self, clock: Clock) -> None:
        """Returns when another process may have written: when the database says so, or after a while."""
        ...

    async def after(
        self, revision: int, limit: int, *, until: int | None = None, resource: str | None = None
    ) -> Sequence[Event]:
        """Returns events newer than `revision` and not newer than `until`, oldest first, of one resource or
        of all.

        Fewer than `limit` means that there are no more. Raises CompactedError.
        """
        ...

    async def compacted(self) -> int:
        """Returns the revision of the last compaction, 0 before the first."""
        ...

    async def entries(self) -> tuple[int, Sequence[Entry]]:
        """Returns the projection, and the revision it is at."""
        ...

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """Returns the objects of `resource` as of `revision`, by key. Raises CompactedError,
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
        """Returns component events at or after the revision `since` of the log, oldest first."""
        ...

    async def close(self) -> None:
        """Finishes what was accepted, then lets go of the database."""
        ...


class Watch(Protocol):
    """Reads the log by a cursor. Iterating gives batches of events without gap or reordering.

    An empty batch is a progress notification: everything up to `revision` has been delivered. It comes
    after `request_progress`. Iteration ends after `close`, and raises SlowWatcherError, CompactedError or
    StorageError.
    """

    @property
    def revision(self) -> int:
        """Returns the revision up to which everything has been delivered."""
        ...

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...

    def request_progress(self) -> None:
        """Makes the next batch come at once, empty if there is nothing to deliver."""
        ...

    def close(self) -> None:
        """Ends the iteration; idempotent."""
        ...


class Store(Protocol):
    """Holds the objects and their history, as handlers need them.

    Reads cost what they answer, not what is stored.
    """

    received: dict[str, int]  # events that this server has applied, by resource

    @property
    def revision(self) -> int:
        """Returns the newest revision this server has applied."""
        ...

    async def refresh(self) -> int:
        """Applies everything committed by now, by any server; returns the revision (a consistent read's)."""
        ...

    async def wait_for(self, revision: int, timeout: float) -> None:
        """Returns once `revision` is applied. Raises FutureRevisionError after `timeout` seconds."""
        ...

    def get(self, key: Key) -> Entry | None:
        """Returns the current object, from memory."""
        ...

    def list(
        self,
        resource: str,
        namespace: str | None = None,
        after: Key | None = None,
        limit: int = 0,
        matches: Callable[[Entry], bool] | None = None,
    ) -> Page:
        """Returns current objects in key order (etcd's: by `namespace/name`), from memory.

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
        """Returns events of a resource newer than `since`. Raises CompactedError, FutureRevisionError."""
        ...

    def changed(self, resource: str) -> int:
        """Returns the revision at which any object of `resource` last changed, as far as this server
        remembers.
        """
        ...

    def follow(self, resource: str, listener: Callable[[Key], None]) -> None:
        """Calls `listener` with the key of every object of `resource` that comes, changes or goes from now
        on.

        It runs on the event loop, after memory has changed, and must neither block nor raise.
        """
        ...

    def horizon(self, resource: str) -> int:
        """Returns the oldest revision whose successors are all known for `resource`."""
        ...

    def cached_since(self, resource: str) -> int:
        """Returns the revision at which a watch cache of `resource` was filled, which knows no event from
        before: that at which the store was opened, unless `refill` was called.
        """
        ...

    def refill(self, resource: str) -> None:
        """Has `cached_since` begin at the newest revision, for a resource that gets a new watch cache."""
        ...

    def fillings(self, resource: str) -> tuple[int, int]:
        """Returns how often a watch cache of `resource` was filled, and with how many objects in all."""
        ...

    def raise_horizon(self, resource: str, revision: int) -> None:
        """Compacts for `resource` what is older than `revision`, at which a custom resource came to be."""
        ...

    async def compact(self, revision: int) -> None:
        """Forgets what was superseded at or before `revision`. Raises FutureRevisionError."""
        ...

    async def close(self) -> None:
        """Ends every watch, finishes what was accepted, closes the log."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *exc: object) -> None: ...
