"""Reads the log of a cluster that may be running: no lock, no migration, no write."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Self

from kubeskew.apimachinery.clock import Clock
from kubeskew.apiserver.storage.databases import open_database
from kubeskew.apiserver.storage.failures import StorageError
from kubeskew.apiserver.storage.metadata import Metadata
from kubeskew.apiserver.storage.moments import Moment, merged
from kubeskew.apiserver.storage.operations import NO_LIMIT, compacted, entries_at, events_after, newest
from kubeskew.apiserver.storage.records import ComponentEvent, Entry, Event, Key
from kubeskew.apiserver.storage.sessions import Database
from kubeskew.apiserver.storage.statements import component_event_of, entry_of, event_of
from kubeskew.apiserver.storage.verifying import Replay, verify

CHUNK_EVENTS = 500
FOLLOW_SECONDS = 0.1


class LogReader:
    """Reads the log at a database URL, as `kubeskew events`, `history`, `diff` and `replay` need it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    async def open(cls, url: str) -> Self:
        """Opens the log for reading only. Raises StorageError, also if there is no database."""
        return cls(await open_database(url, read_only=True))

    async def revision(self) -> int:
        """Returns the newest revision."""
        return await self._database.read(newest)

    async def horizon(self) -> int:
        """Returns the revision of the last compaction, 0 before the first."""
        return await self._database.read(compacted)

    async def store_id(self) -> str:
        """Returns what tells this store from every other."""
        return (await self._database.read(Metadata.read)).store_id

    async def timeline(self) -> Sequence[ComponentEvent]:
        """Returns what happened to components, oldest first."""
        rows = await self._database.read(lambda session: session.all("timeline", since=0, seq=0))
        return [component_event_of(row) for row in rows]

    async def hashes(self) -> tuple[str, str]:
        """Returns the SHA-256 of the objects that the log comes to, and that of the table of objects."""
        replayed = await self.replay()
        return replayed.replayed_hash, replayed.projection_hash

    async def entries(self) -> Sequence[Entry]:
        """Returns the projection."""
        return await self._database.read(lambda session: [entry_of(row) for row in session.all("entries")])

    async def at(self, revision: int, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """Returns the objects of `resource` as of `revision`. Raises CompactedError, FutureRevisionError."""
        return await self._database.read(lambda session: entries_at(session, revision, resource, namespace))

    async def resources(self) -> Sequence[str]:
        """Returns the names of all resources that the log has events of."""
        return await self._database.read(lambda session: [name for (name,) in session.all("resources")])

    async def replay(self) -> Replay:
        """Returns the whole log replayed and compared with the projection, on one snapshot."""
        mark = self._database.committed()  # before the snapshot, which may be newer
        return await self._database.read(lambda session: verify(session, mark))

    async def history(self, key: Key) -> Sequence[Event]:
        """Returns every event of one object that is left, oldest first."""
        rows = await self._database.read(
            lambda session: session.all(
                "history", resource=key.resource, namespace=key.namespace, name=key.name
            )
        )
        return [event_of(row) for row in rows]

    async def remaining(self) -> AsyncIterator[Event]:
        """Yields every event that compaction has left, from the beginning: what `replay` folds."""
        revision = 0
        while events := await self._chunk(revision, NO_LIMIT, None, whole=True):
            for event in events:
                yield event
            revision = events[-1].revision

    async def _chunk(
        self, revision: int, until: int, resource: str | None, *, whole: bool = False
    ) -> Sequence[Event]:
        return await self._database.read(
            lambda session: events_after(session, revision, CHUNK_EVENTS, until, resource, whole=whole)
        )

    async def events(self, since: int = 0, resource: str | None = None) -> AsyncIterator[Moment]:
        """Yields events newer than `since`, of `resource` or of all, and component events, in the order of
        time.

        Ends at the newest revision. Raises CompactedError if `since` is older than the horizon and not 0,
        which stands for the oldest that is left.
        """
        async for moment in self._moments(since, resource, 0):
            yield moment

    async def follow(
        self,
        clock: Clock,
        since: int = 0,
        resource: str | None = None,
        is_current: Callable[[], bool] = lambda: True,
    ) -> AsyncIterator[Moment]:
        """Yields what `events` yields, and then whatever happens next; does not end.

        Raises StorageError when the file is not the one any more that was opened, or the log is not
        `is_current`, which of a database somebody else has to say: the cluster was rewound.
        """
        seen = _Seen(since)
        while True:
            if not self._database.there or not is_current():
                raise StorageError(f"{self._database.place} was removed or replaced, as by a rewind")
            async for moment in self._moments(seen.revision, resource, seen.seq, seen):
                yield moment
            await clock.sleep(FOLLOW_SECONDS)

    async def _moments(
        self, since: int, resource: str | None, seq: int, seen: "_Seen | None" = None
    ) -> AsyncIterator[Moment]:
        until, rows = await self._database.read(
            lambda session: (newest(session), session.all("timeline", since=since, seq=seq))
        )
        waiting = [component_event_of(row) for row in rows]
        revision = since
        while events := await self._chunk(revision, until, resource, whole=since == 0):
            revision = events[-1].revision
            ready = [moment for moment in waiting if moment.revision < revision]
            waiting = waiting[len(ready) :]
            for moment in merged(events, ready):
                yield moment
        for moment in waiting:
            yield moment
        if seen is not None:
            seen.revision = max(until, since)
            seen.seq = rows[-1][0] if rows else seen.seq

    async def close(self) -> None:
        """Lets go of the database."""
        await self._database.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class _Seen:
    """Holds the position of a follower: in the log, and on the time line."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self.seq = 0
