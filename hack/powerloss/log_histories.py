"""Random histories of a log, recorded from the first operation to the last."""

import asyncio
import ctypes
import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from unittest.mock import patch

from disk_recorder import Recorder
from sqlite_files import layer, library
from stories import AUTHOR, MOST, FixedClock, Story, Told

from kubeskew.apiserver.storage import sql_log
from kubeskew.apiserver.storage.records import (
    Author,
    Change,
    ComponentEvent,
    Entry,
    Event,
    Key,
    Lease,
    Transaction,
    Verb,
)
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.sqlite import database as sqlite
from kubeskew.migrations import upgrade

NAMES = 24  # of objects
_SEED_CONTROL = 28  # SQLITE_TESTCTRL_PRNG_SEED
NOW = FixedClock().now()


def url_of(path: Path) -> str:
    return f"sqlite+aiosqlite:///{path}"


@contextmanager
def repeatable(seed: int, checkpoint: int) -> Iterator[None]:
    """Whatever depends on chance and time depends on the seed; checkpoints come after so many pages."""
    library().sqlite3_test_control(_SEED_CONTROL, ctypes.c_int(seed + 1), ctypes.c_void_p(None))
    pragmas = tuple(
        f"PRAGMA wal_autocheckpoint={checkpoint}" if "wal_autocheckpoint" in pragma else pragma
        for pragma in sqlite.PRAGMAS
    )
    with (
        patch.object(sqlite, "PRAGMAS", pragmas),
        patch.object(sqlite, "BRIEF_SECONDS", math.inf),
        patch.object(sqlite, "BRIEF_TRANSACTIONS", 6),
        patch.object(sql_log, "GATHER_SECONDS", 60.0),
    ):
        yield


class Client:
    """Writes to a log, and tells the story of it."""

    def __init__(self, random: Random, recorder: Recorder, path: Path, story: Story, leases: int = 0) -> None:
        """`leases` have been granted before."""
        self._random = random
        self._recorder = recorder
        self._path = path
        self.story = story
        self._objects: dict[Key, Entry | Event] = {}
        self._leases: dict[int, None] = {}
        self._lease = leases
        self._log: SQLLog | None = None

    @property
    def log(self) -> SQLLog:
        assert self._log is not None
        return self._log

    async def open(self) -> None:
        since = self._recorder.position
        self._log = await SQLLog.open(url_of(self._path), FixedClock())
        self._log.subscribe(self.story.learn)
        _, entries = await self._log.entries()
        self._objects = {entry.key: entry for entry in entries}
        self._leases = {lease.id: None for lease in await self._log.leases()}
        self.story.stores.append(Told(since, self._recorder.position, "opened"))

    async def close(self) -> None:
        await self.log.close()
        self._recorder.observe()

    async def step(self) -> None:
        weights = {
            self._burst: 12,
            self._transaction: 4,
            self._grant: 1,
            self._renew: 1,
            self._revoke: 1,
            self._record: 1,
            self._attribute: 1,
            self._compact: 1,
            self._reopen: 1,
            self._contend: 1,
        }
        await self._random.choices([*weights], [*weights.values()])[0]()
        self._recorder.observe()

    # --

    def _value(self) -> bytes:
        size = self._random.choice((20, 200, 200, 400, 3000, 9000))
        return self._random.randbytes(size // 2).hex().encode()

    def _change(self, key: Key) -> Change:
        before = self._objects.get(key)
        if before is None or (isinstance(before, Event) and before.verb is Verb.DELETE):
            uid = f"u{self._random.randrange(1 << 30)}"
            return Change(Verb.CREATE, key, uid, self._value(), 0, AUTHOR, NOW)
        if self._random.random() < 0.3:
            return Change(Verb.DELETE, key, before.uid, before.value, before.revision, AUTHOR, NOW)
        return Change(Verb.UPDATE, key, before.uid, self._value(), before.revision, AUTHOR, NOW)

    def _keys(self, most: int) -> list[Key]:
        numbers = self._random.sample(range(NAMES), self._random.randint(1, most))
        return [Key("pods" if number % 2 else "configmaps", "default", f"o{number}") for number in numbers]

    async def _burst(self) -> None:
        most = self._random.choice((1, 1, 2, NAMES))
        await asyncio.gather(*(self._append(self._change(key)) for key in self._keys(most)))

    async def _append(self, change: Change) -> None:
        since = self._recorder.position
        event = await self.log.append(change)
        self._objects[event.key] = event
        self.story.revisions.append(Told(since, self._recorder.position, event.revision))

    async def _transaction(self, *, revokes: int = 0) -> None:
        since = self._recorder.position
        changes = [self._change(key) for key in self._keys(6)]
        if self._leases and not revokes:
            lease = self._random.choice([*self._leases])
            changes = [
                change._replace(lease=lease) if change.verb is not Verb.DELETE else change
                for change in changes
            ]
        revision, events = await self.log.transact(Transaction(changes, revokes=revokes))
        self._objects |= {event.key: event for event in events}
        self.story.revisions.append(Told(since, self._recorder.position, revision))

    async def _grant(self) -> None:
        self._lease += 1
        since = self._recorder.position
        await self.log.grant(Lease(1000 + self._lease, 60))
        self._leases[1000 + self._lease] = None
        await self._tell_leases(since)

    async def _renew(self) -> None:
        since = self._recorder.position
        await self.log.renew([*self._leases], NOW)
        await self._tell_leases(since)

    async def _revoke(self) -> None:
        if self._leases:
            lease = self._random.choice([*self._leases])
            since = self._recorder.position
            del self._leases[lease]
            await self._transaction(revokes=lease)
            await self._tell_leases(since)

    async def _tell_leases(self, since: int) -> None:
        at = self._recorder.position
        self.story.leases.append(Told(since, at, tuple(await self.log.leases())))

    async def _record(self) -> None:
        detail = f"record {len(self.story.records)}"
        since = self._recorder.position
        await self.log.record(ComponentEvent(0, "scheduler", "started", "1.36", "", NOW, detail))
        self.story.records.append(Told(since, self._recorder.position, detail))

    async def _attribute(self) -> None:
        if not self.story.events:
            return
        event = self._random.choice(self.story.events)
        place = event.revision, event.sub
        if event.revision <= await self.log.compacted() or place in self.story.authors:
            return
        author = Author("somebody", "curl", "8", "1.36", "request-2")
        since = self._recorder.position
        await self.log.attribute([(place, author)])
        self.story.authors[place] = Told(since, self._recorder.position, author)

    async def _compact(self) -> None:
        newest, before = await self.log.revision(), await self.log.compacted()
        if newest > before + 2:
            revision = self._random.randint(before + 1, newest)
            since = self._recorder.position
            self.story.compactions.append(Told(since, 1 << 60, revision))
            await self.log.compact(revision)
            self.story.compactions[-1] = Told(since, self._recorder.position, revision)

    async def _reopen(self) -> None:
        await self.close()
        await self.open()

    async def _contend(self) -> None:
        """Another server writes to the same log, and checkpoints."""
        other = await SQLLog.open(url_of(self._path), FixedClock())
        other.subscribe(self.story.learn)
        mine, self._log = self.log, other
        try:
            await self._burst()
        finally:
            self._log = mine
            await other.close()


async def record_commits(random: Random, directory: Path, steps: int) -> tuple[Recorder, Story]:
    """A new log: commits, transactions, leases, compactions, checkpoints and starts."""
    recorder, story = Recorder(directory), Story()
    with layer().serving(recorder), recorder.recording():
        client = Client(random, recorder, directory / "events.db", story)
        await client.open()
        for _ in range(steps):
            await client.step()
        await client.close()
    return recorder, story


async def record_migration(random: Random, directory: Path, steps: int) -> tuple[Recorder, Story]:
    """A log of an older schema is opened, and goes on."""
    path, story = directory / "events.db", Story()
    log = await SQLLog.open(url_of(path), FixedClock())
    for number in range(random.randint(1, 40)):
        event = await log.append(
            Change(Verb.CREATE, Key("pods", "default", f"old{number}"), "u", b"old" * 99, 0, AUTHOR, NOW)
        )
        if number % 3 == 0:
            await log.append(Change(Verb.DELETE, event.key, "u", event.value, event.revision, AUTHOR, NOW))
    await log.close()
    _take_back(path, f"{random.randint(1, int(upgrade.HEAD) - 1):04}")
    story.events = await _migrated(path)
    recorder = Recorder(directory)
    newest = story.events[-1].revision
    story.revisions.append(Told(0, recorder.start, newest))
    with layer().serving(recorder), recorder.recording():
        client = Client(random, recorder, path, story)
        await client.open()
        for _ in range(steps // 4):
            await client.step()
        await client.close()
    return recorder, story


def _take_back(path: Path, version: str) -> None:
    import sqlalchemy
    from alembic import command

    settings = upgrade.config()
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        settings.attributes["connection"] = connection
        command.downgrade(settings, version)
    engine.dispose()


async def _migrated(path: Path) -> list[Event]:
    """Reads what the events of an old log become, from a copy."""
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    log = await SQLLog.open(url_of(copy), FixedClock())
    try:
        return [*await log.after(0, MOST)]
    finally:
        await log.close()
        for each in path.parent.glob("copy.db*"):
            each.unlink()


async def go_on(random: Random, directory: Path, story: Story) -> tuple[Recorder, Story]:
    """A log that a crash has left is opened and written, so that it may crash again."""
    recorder = Recorder(directory)
    with layer().serving(recorder), recorder.recording():
        path = directory / "events.db"
        log = await SQLLog.open(url_of(path), FixedClock())
        revision, records = await log.revision(), await log.timeline()
        again = Story(
            [event for event in story.events if event.revision <= revision],
            [Told(0, recorder.start, revision)],
            [Told(0, recorder.start, await log.compacted())],
            [Told(0, recorder.start, tuple(await log.leases()))],
            [Told(0, recorder.start, record.detail) for record in records],
        )
        kept = await log.after(await log.compacted(), MOST)
        again.authors = {(event.revision, event.sub): Told(0, recorder.start, event.author) for event in kept}
        await log.close()
        client = Client(random, recorder, path, again, leases=1000)
        await client.open()
        for _ in range(3):
            await client.step()
        await client.close()
    return recorder, again
