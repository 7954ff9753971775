"""Watches as cursors: ordered, without gap or duplicate, resumable, bounded."""

import asyncio
from collections.abc import Sequence

import pytest
from storage_cases import CLOCK, create, delete, every_event, pod, update

from kubeskew.apiserver.storage import watches
from kubeskew.apiserver.storage.interfaces import CompactedError, Log, SlowWatcherError
from kubeskew.apiserver.storage.records import Event, Key
from kubeskew.apiserver.storage.store import CachedStore
from kubeskew.apiserver.storage.watches import Cursor, Window


async def take(watch: Cursor, count: int) -> list[Event]:
    """The next `count` events of `watch`."""
    events: list[Event] = []
    while len(events) < count:
        events += await anext(watch)
    assert len(events) == count
    return events


def revisions(events: Sequence[Event]) -> list[int]:
    return [event.revision for event in events]


async def test_a_watch_delivers_what_comes(store: CachedStore):
    """Create, update and delete arrive in order, with the state before each."""
    watch = store.watch("pods", None, None, store.revision)
    event = await store.write(create(pod()))
    event = await store.write(update(event))
    await store.write(delete(event))
    events = await take(watch, 3)
    assert [(event.verb.value, event.previous_value) for event in events] == [
        ("create", None),
        ("update", b"1"),
        ("delete", b"2"),
    ]


@pytest.mark.parametrize(
    ("namespace", "name", "expected"),
    [
        (None, None, ["a/x", "a/y", "b/x"]),
        ("a", None, ["a/x", "a/y"]),
        ("a", "y", ["a/y"]),
        (None, "x", ["a/x", "b/x"]),
        ("c", None, []),
    ],
)
async def test_a_watch_sees_its_scope_only(store: CachedStore, namespace, name, expected):
    """Resource, namespace and name each narrow a watch, live or catching up."""
    start = store.revision
    live = store.watch("pods", namespace, name, start)
    for place, this in (("a", "x"), ("a", "y"), ("b", "x")):
        await store.write(create(pod(this, place)))
    await store.write(create(Key("nodes", "", "x")))
    store._window = Window(store.revision)  # forget: the second watch has to read the log
    behind = store.watch("pods", namespace, name, start)
    for watch in (live, behind):
        watch.request_progress()
        events: list[Event] = []
        while batch := await anext(watch):
            events += batch
            watch.request_progress()
        assert [event.key.path for event in events] == expected
        assert watch.revision == store.revision


async def test_a_watch_resumes_from_any_revision(store: CachedStore, log: Log):
    """From every revision there is, memory and log give the same rest."""
    for i in range(10):
        event = await store.write(create(pod(f"p{i}")))
        await store.write(update(event))
    everything = await every_event(log)
    for memory_from in (1, 8, 21):
        store._window = Window(memory_from)
        store._window.extend([event for event in everything if event.revision > memory_from])
        for since in range(22):
            watch = store.watch("pods", None, None, since)
            expected = [event for event in everything if event.revision > since]
            assert await take(watch, len(expected)) == expected
            watch.close()


async def test_catching_up_meets_what_is_live(store: CachedStore, monkeypatch):
    """A watch that reads the log in small steps while others write misses nothing and repeats nothing."""
    monkeypatch.setattr(watches, "CATCH_UP_EVENTS", 3)
    for i in range(20):
        await store.write(create(pod(f"old{i}")))
    store._window = Window(store.revision)
    watch = store.watch("pods", None, None, 1)

    async def write() -> None:
        for i in range(30):
            await store.write(create(pod(f"new{i}")))

    writing = asyncio.ensure_future(write())
    assert revisions(await take(watch, 50)) == list(range(2, 52))
    await writing


async def test_progress_is_reported_when_asked(store: CachedStore):
    """An empty batch says that everything up to the watch's revision has been delivered."""
    watch = store.watch("pods", "quiet", None, store.revision)
    await store.write(create(pod("a", "busy")))
    watch.request_progress()
    assert list(await anext(watch)) == []
    assert watch.revision == store.revision == 2
    await store.write(create(pod("a", "quiet")))
    await store.write(create(pod("b", "busy")))
    assert watch.revision == 2
    assert revisions(await anext(watch)) == [3]
    assert watch.revision == 4


async def test_a_slow_watcher_is_ended(store: CachedStore, monkeypatch):
    """Beyond the bound the watch raises and holds nothing any more; others go on."""
    monkeypatch.setattr(watches, "PENDING_EVENTS_MAX", 5)
    slow = store.watch("pods", None, None, store.revision)
    quick = store.watch("pods", None, None, store.revision)
    for i in range(6):
        await store.write(create(pod(f"p{i}")))
        assert len(await take(quick, 1)) == 1
    with pytest.raises(SlowWatcherError):
        await anext(slow)
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert list(store._watches) == [quick]


async def test_a_watcher_of_huge_objects_is_bounded_by_bytes(store: CachedStore, monkeypatch):
    """A few big values are as slow as many small ones."""
    monkeypatch.setattr(watches, "PENDING_BYTES_MAX", 1000)
    slow = store.watch("pods", None, None, store.revision)
    for i in range(3):
        await store.write(create(pod(f"p{i}"), b"x" * 400))
    with pytest.raises(SlowWatcherError):
        await anext(slow)


async def test_the_states_before_count_as_well(store: CachedStore, monkeypatch):
    """A slow watch that gets updates is charged for both states of each object, the old and the new."""
    event = await store.write(create(pod(), b"x" * 400))
    monkeypatch.setattr(watches, "PENDING_BYTES_MAX", 1000)
    slow = store.watch("pods", None, None, store.revision)
    for _ in range(2):
        event = await store.write(update(event, b"x" * 400))
    with pytest.raises(SlowWatcherError):
        await anext(slow)


async def test_closing_ends_the_iteration(store: CachedStore):
    """A reader that waits is woken; what was pending is not delivered any more."""
    watch = store.watch("pods", None, None, store.revision)

    async def read() -> list[Sequence[Event]]:
        return [batch async for batch in watch]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    watch.close()
    watch.close()
    assert await reading == []


async def test_closing_the_store_ends_its_watches(log: Log):
    """Readers see the end of the iteration, not an error."""
    store = await CachedStore.open(log, CLOCK)
    watch = store.watch("pods", None, None, 1)
    await store.close()
    assert [batch async for batch in watch] == []


async def test_a_cancelled_reader_can_read_on(store: CachedStore):
    """Giving up waiting (for a bookmark's sake) loses nothing."""
    watch = store.watch("pods", None, None, store.revision)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(watch), 0.001)
    await store.write(create(pod()))
    assert revisions(await anext(watch)) == [2]


async def test_compaction_overtakes_a_watch_that_catches_up(store: CachedStore):
    """A watch whose next events were compacted ends with CompactedError instead of skipping them."""
    event = await store.write(create(pod()))
    for _ in range(5):
        event = await store.write(update(event))
    store._window = Window(store.revision)
    watch = store.watch("pods", None, None, 2)
    await store.compact(6)
    with pytest.raises(CompactedError):
        await anext(watch)


async def test_compaction_does_not_disturb_what_is_live(store: CachedStore):
    """A live watch goes on over a compaction."""
    watch = store.watch("pods", None, None, 1)
    event = await store.write(create(pod()))
    event = await store.write(update(event))
    await store.compact(3)
    await store.write(update(event))
    assert revisions(await take(watch, 3)) == [2, 3, 4]


async def test_the_window_forgets_the_oldest(log: Log):
    """A window keeps less than its bounds, and what it keeps is without a gap."""
    for i in range(40):
        await log.append(create(pod(f"p{i}"), b"x" * 10))
    events = await every_event(log)
    for window in (Window(1, events_max=20), Window(1, bytes_max=200)):
        for event in events:
            window.extend([event])
            kept = window.since(window.start)
            assert len(kept) <= 20
            assert revisions(kept) == list(range(window.start + 1, event.revision + 1))


async def test_a_watch_of_one_namespace_pays_for_no_other(store: CachedStore):
    """Events elsewhere do not even touch the cursor."""
    watch = store.watch("pods", "quiet", None, store.revision)
    touched: list[Event] = []
    watch.offer = touched.append  # type: ignore[method-assign]
    await store.write(create(pod("a", "busy")))
    assert touched == []
    await store.write(create(pod("a", "quiet")))
    assert revisions(touched) == [3]
