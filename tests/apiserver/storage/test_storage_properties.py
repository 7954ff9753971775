"""Whatever is done: log, fold, projection, memory, history and watches agree."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from randomness import examples
from storage_cases import CLOCK, create, delete, every_event, pod, update

from kubeskew.apiserver.storage.interfaces import CompactedError, RevisionMismatchError
from kubeskew.apiserver.storage.memory_log import MemoryLog
from kubeskew.apiserver.storage.projection import digest, encoded, fold
from kubeskew.apiserver.storage.records import Change, Entry, Event, Key
from kubeskew.apiserver.storage.sql_log import SQLLog
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.apiserver.storage.watches import Window, covers

KEYS = [pod("a"), pod("b"), pod("a", "other"), Key("nodes", "", "a")]
OPERATIONS = st.tuples(
    st.sampled_from(["write", "write", "stale", "delete", "delete", "compact", "forget", "watch"]),
    st.integers(0, 3),
    st.binary(max_size=3),
)
STEPS = st.lists(st.lists(OPERATIONS, min_size=1, max_size=5), max_size=12)


class Run:
    """One store under test, with watches open on it and what they have delivered."""

    def __init__(self, store: CachedStore, log: Any) -> None:
        self.store = store
        self.log = log
        self.history: list[Event] = []
        self.watches: list[tuple[Any, int, list[Event]]] = []

    async def step(self, operations: list[tuple[str, int, bytes]]) -> None:
        """Do all `operations` at once, as concurrent requests would."""
        changes: list[Change] = []
        for what, number, value in operations:
            if what == "compact":
                await self.store.compact(max(1, self.store.revision - number))
            elif what == "forget":
                self.store._window = Window(self.store.revision)
            elif what == "watch":
                self._watch(KEYS[number], len(value))
            else:
                changes.append(self._change(what, KEYS[number], value))
        results = await asyncio.gather(*map(self.store.write, changes), return_exceptions=True)
        for result in results:
            assert isinstance(result, (Event, RevisionMismatchError))
        self.history += [result for result in results if isinstance(result, Event)]

    def _change(self, what: str, key: Key, value: bytes) -> Change:
        current = self.store.get(key)
        if current is None:
            return create(key, value)
        if what == "delete":
            return delete(current)
        return update(current, value, current.revision + (what == "stale"))

    def _watch(self, key: Key, width: int) -> None:
        since = max(self.store.horizon(), self.store.revision - 3)
        namespace = key.namespace if width > 0 else None
        name = key.name if width > 1 else None
        watch = self.store.watch(key.resource, namespace, name, since)
        self.watches.append((watch, since, []))

    async def check(self) -> None:
        """Everything that must be equal is."""
        self.history.sort(key=lambda event: event.revision)
        revisions = [event.revision for event in self.history]
        assert revisions == list(range(2, self.store.revision + 1))
        expected = fold(self.history)
        left = fold(await every_event_left(self.log))
        _, entries = await self.log.entries()
        assert {entry.key: entry for entry in entries} == expected == left
        assert digest(entries) == digest(left.values())
        for resource in ("pods", "nodes"):
            self._check_memory(resource, expected)
        await self._check_past()
        await self._check_watches()

    def _check_memory(self, resource: str, expected: dict[Key, Entry]) -> None:
        wanted = [entry for key, entry in expected.items() if key.resource == resource]
        assert self.store.list(resource).entries == sorted(wanted, key=lambda entry: entry.key.path)

    async def _check_past(self) -> None:
        for revision in range(max(1, self.store.horizon()), self.store.revision + 1):
            then = fold(event for event in self.history if event.revision <= revision)
            wanted = sorted(
                (entry for entry in then.values() if entry.key.resource == "pods"),
                key=lambda entry: entry.key.path,
            )
            assert await self.log.at(revision, "pods") == wanted
            assert (await self.store.list_at(revision, "pods")).entries == wanted

    async def _check_watches(self) -> None:
        for each in list(self.watches):
            watch, since, seen = each
            expected = [
                event for event in self.history if event.revision > since and covers(watch.scope, event.key)
            ]
            try:
                while len(seen) < len(expected):
                    seen += await anext(watch)
            except CompactedError:  # it was catching up: never after it had gone live
                assert watch.revision < await self.log.compacted()
                self.watches.remove(each)
            assert seen == expected[: len(seen)]


async def every_event_left(log: Any) -> list[Event]:
    """All that compaction left, also what is older than the horizon."""
    if isinstance(log, MemoryLog):
        return log._records.events
    from kubeskew.apiserver.storage.operations import NO_LIMIT, events_after

    return list(
        await log._database.read(
            lambda session: events_after(session, 0, 1_000_000, NO_LIMIT, None, whole=True)
        )
    )


async def _run(log: Any, steps: list[list[tuple[str, int, bytes]]]) -> tuple[list[Event], bytes]:
    async with await CachedStore.open(log, CLOCK) as store:
        run = Run(store, log)
        for operations in steps:
            await run.step(operations)
            await run.check()
        _, entries = await log.entries()
        return run.history, b"".join(encoded(entries))


@settings(max_examples=examples(60))
@given(steps=STEPS)
def test_everything_agrees(steps: list[list[tuple[str, int, bytes]]]):
    """The SQL log and the model, under the same operations, end with the same events and the same bytes."""

    async def both() -> None:
        in_sql = await _run(await SQLLog.open("sqlite+aiosqlite://", CLOCK), steps)
        in_memory = await _run(MemoryLog(), steps)
        assert in_sql == in_memory

    asyncio.run(both())


async def test_replay_gives_the_same_hash(tmp_path):
    """Folding the log from scratch gives the projection's bytes; one changed byte is noticed."""
    from storage_cases import url_in

    log = await SQLLog.open(url_in(tmp_path), CLOCK)
    event = await log.append(create(pod("a")))
    await log.append(create(pod("b")))
    await log.append(update(event))
    _, entries = await log.entries()
    folded = fold(await every_event(log))
    assert digest(folded.values()) == digest(entries)
    changed = fold([*await every_event(log)][:-1])
    assert digest(changed.values()) != digest(entries)
    await log.close()
