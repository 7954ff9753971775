"""Compares what is there after a crash with what callers of a log were told.

All that a log is told happens one by one, but for the changes that are written together. So after a crash the
log must be as it was at one moment of its story, between the last thing that somebody was told was done and
the first that was not begun.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.projection import digest, fold
from kubeskew.apiserver.storage.records import Author, Change, Event, Key, Lease, Place, Verb
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog

WRITTEN_AFTER = Key("configmaps", "default", "written-after-the-crash")
AUTHOR = Author("system:admin", "kubectl", "1.36", "1.35", "request-1")
MOST = 1_000_000


class FixedClock:
    """Stands still, so that each run of a seed is the same."""

    def now(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


Value = TypeVar("Value")


@dataclass(frozen=True)
class Told(Generic[Value]):
    """`at` operations had been done when a caller was told of `value`; `since` so many when it was begun."""

    since: int
    at: int
    value: Value


@dataclass
class Story:
    events: list[Event] = field(default_factory=list)  # all that were ever written, in order
    revisions: list[Told[int]] = field(default_factory=list)  # that were acknowledged
    compactions: list[Told[int]] = field(default_factory=list)
    leases: list[Told[tuple[Lease, ...]]] = field(default_factory=list)  # all live ones after a change of one
    records: list[Told[str]] = field(default_factory=list)  # on the time line
    authors: dict[Place, Told[Author]] = field(default_factory=dict)  # learnt later
    stores: list[Told[Any]] = field(default_factory=list)

    def learn(self, events: Sequence[Event]) -> None:
        """Listens to the log."""
        self.events.extend(events)


def last_told(told: Sequence[Told[Any]], cut: int) -> int:
    """The number of the last that was told by then; -1 if none was."""
    return max((number for number, each in enumerate(told) if each.at <= cut), default=-1)


async def judge(directory: Path, story: Story, cut: int, *, name: str = "events.db") -> list[str]:
    """Opens the log that a crash after `cut` operations has left, as a server does; returns what is wrong."""
    url = f"sqlite+aiosqlite:///{directory / name}"
    try:
        log = await SQLLog.open(url, FixedClock())
    except StorageError as error:
        return [f"the log does not open: {error}"]
    try:
        return await _wrong(log, story, cut) or await _further(log, directory / name, url)
    except StorageError as error:
        return [f"the log cannot be read or written: {error}"]
    finally:
        await log.close()


async def _wrong(log: SQLLog, story: Story, cut: int) -> list[str]:
    found: list[str] = []
    revision, entries = await log.entries()  # compared with digest, count and mark
    told = [each.value for each in story.revisions[: last_told(story.revisions, cut) + 1]]
    acknowledged = max(told, default=1)
    if revision < acknowledged:
        found.append(f"revision {acknowledged} was acknowledged, and the log ends at {revision}")
    known = [event for event in story.events if event.revision <= revision]
    newest = known[-1].revision if known else 1
    if newest != revision:
        found.append(
            f"the log is at revision {revision}, and nothing that was written is newer than {newest}"
        )
    if digest(entries) != digest(fold(known).values()):
        found.append(f"the objects at revision {revision} are not those that its events leave")
    compacted = await log.compacted()
    found += _compaction(story, cut, compacted)
    events = await log.after(compacted, MOST)
    found += _events(events, [event for event in known if event.revision > compacted], story, cut)
    if found:
        return found
    index = last_told(story.leases, cut)
    allowed = [each.value for each in story.leases[max(index, 0) : index + 2]]
    if index < 0:
        allowed.append(())
    leases = tuple(await log.leases())
    if leases not in allowed:
        found.append(f"the leases are {leases}, and were told to be {allowed[0]}")
    records = [event.detail for event in await log.timeline()]
    expected = [each.value for each in story.records]
    sure = last_told(story.records, cut) + 1
    if records != expected[: len(records)] or len(records) < sure:
        found.append(f"the time line has {len(records)} records of {sure} that were told")
    return found


def _compaction(story: Story, cut: int, compacted: int) -> list[str]:
    index = last_told(story.compactions, cut)
    sure = story.compactions[index].value if index >= 0 else 0
    begun = [each.value for each in story.compactions if each.since <= cut]
    if not sure <= compacted <= max(begun, default=0):
        return [f"the log is compacted up to {compacted}, and {sure} was told"]
    return []


def _events(events: Sequence[Event], known: Sequence[Event], story: Story, cut: int) -> list[str]:
    if len(events) != len(known):
        return [f"the log has {len(events)} events where {len(known)} were written"]
    for event, written in zip(events, known, strict=True):
        learnt = story.authors.get((event.revision, event.sub))
        author = written.author
        if learnt is not None and (learnt.at <= cut or event.author == learnt.value):
            author = learnt.value
        if event != written._replace(author=author, previous_value=event.previous_value):
            return [f"event {event.sub} of revision {event.revision} is not what was written: {event}"]
    return []


async def _further(log: SQLLog, path: Path, url: str) -> list[str]:
    """Compares log and table in full, and writes."""
    found: list[str] = []
    async with await LogReader.open(url) as reader:
        found += [difference.text for difference in (await reader.replay()).differences]
    with closing(sqlite3.connect(path)) as raw:
        check = raw.execute("PRAGMA integrity_check").fetchall()
    if check != [("ok",)]:
        found.append(f"SQLite's own check: {check[0][0]}")
    revision = await log.revision()
    event = await log.append(
        Change(Verb.CREATE, WRITTEN_AFTER, "after", b"{}", 0, AUTHOR, FixedClock().now())
    )
    if event.revision != revision + 1:
        found.append(f"after revision {revision} comes {event.revision}")
    return found
