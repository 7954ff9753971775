"""The contract of every implementation of `Log`, and of the store over each of them."""

import asyncio

import pytest
from storage_cases import AUTHOR, START, create, delete, every_event, pod, update

from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    FutureRevisionError,
    Log,
    RevisionMismatchError,
    StorageError,
)
from kubeskew.apiserver.storage.records import EMPTY_REVISION, ComponentEvent, Entry, Event, Key, Verb
from kubeskew.apiserver.storage.store import CachedStore


class TestLog:
    """Append and read."""

    async def test_an_empty_log_is_at_etcds_first_revision(self, log: Log):
        """Before the first write the revision is 1, and the first write gets 2."""
        assert await log.revision() == EMPTY_REVISION == 1
        assert (await log.append(create(pod()))).revision == 2

    async def test_an_event_comes_back_as_it_was_written(self, log: Log):
        """Every field of an event, microseconds included, is kept."""
        first = await log.append(create(pod(), "ünï".encode()))
        second = await log.append(update(first))
        expected = Event(
            3,
            Verb.UPDATE,
            pod(),
            "u1",
            b"2",
            2,
            "ünï".encode(),
            AUTHOR,
            START.replace(second=6),
            2,
            updates=1,
        )
        assert second == expected
        assert await every_event(log) == [first, second]

    async def test_an_object_lives_through_create_update_delete_create(self, log: Log):
        """A second life begins with previous 0, a new creation revision and no previous value."""
        event = await log.append(create(pod()))
        event = await log.append(update(event))
        event = await log.append(delete(event))
        assert (event.verb, event.previous, event.previous_value, event.created) == (Verb.DELETE, 3, b"2", 2)
        event = await log.append(create(pod(), b"new", "u2"))
        assert (event.revision, event.previous, event.previous_value, event.created) == (5, 0, None, 5)
        assert await every_event(log, 4) == [event]
        assert await log.entries() == (5, [Entry(pod(), "u2", 5, 5, b"new")])

    async def test_what_exists_cannot_be_created(self, log: Log):
        """The conflict shows what is there."""
        await log.append(create(pod()))
        with pytest.raises(RevisionMismatchError) as caught:
            await log.append(create(pod()))
        assert caught.value.current == Entry(pod(), "u1", 2, 2, b"1")

    @pytest.mark.parametrize("change", [update, delete])
    async def test_a_stale_revision_conflicts(self, log: Log, change):
        """A change that expects another revision than the object is at is refused and writes nothing."""
        event = await log.append(create(pod()))
        await log.append(update(event))
        with pytest.raises(RevisionMismatchError) as caught:
            await log.append(change(event))
        assert caught.value.current == Entry(pod(), "u1", 3, 2, b"2", updates=1)
        assert await log.revision() == 3

    async def test_what_is_gone_cannot_be_changed(self, log: Log):
        """The conflict of a change to nothing has no current object."""
        event = await log.append(create(pod()))
        await log.append(delete(event))
        with pytest.raises(RevisionMismatchError) as caught:
            await log.append(update(event))
        assert caught.value.current is None

    async def test_a_change_that_no_state_could_fit_is_a_mistake(self, log: Log):
        """An update that expects nothing to exist is a ValueError, not a conflict."""
        event = await log.append(create(pod()))
        with pytest.raises(ValueError, match="expecting revision 0"):
            await log.append(update(event, expected=0))

    async def test_many_writers_of_one_object_are_ordered(self, log: Log):
        """Of concurrent writers with the same expectation, one wins, and revisions have no gaps."""
        created = await log.append(create(pod()))
        changes = [update(created, str(i).encode()) for i in range(20)]
        results = await asyncio.gather(*map(log.append, changes), return_exceptions=True)
        assert sum(isinstance(result, Event) for result in results) == 1
        assert sum(isinstance(result, RevisionMismatchError) for result in results) == 19
        assert [event.revision for event in await every_event(log)] == [2, 3]

    async def test_concurrent_writers_of_many_objects_leave_no_gap(self, log: Log):
        """Each gets a revision of its own, in a row."""
        results = await asyncio.gather(*(log.append(create(pod(f"p{i}"))) for i in range(600)))
        assert sorted(event.revision for event in results) == list(range(2, 602))
        assert await log.revision() == 601

    async def test_a_batch_may_hold_a_whole_life(self, log: Log):
        """Several changes of one object that arrive together see each other."""
        created = create(pod())
        waiting = [asyncio.ensure_future(log.append(created))]
        await asyncio.sleep(0)
        seed = Event(2, Verb.CREATE, pod(), "u1", b"1", 0, None, AUTHOR, START, 2)
        life = (update(seed), delete(seed, 3), create(pod(), b"again", "u2"))
        waiting.extend(asyncio.ensure_future(log.append(change)) for change in life)
        events = await asyncio.gather(*waiting)
        assert [(event.verb.value, event.previous) for event in events] == [
            ("create", 0),
            ("update", 2),
            ("delete", 3),
            ("create", 0),
        ]
        assert await every_event(log) == list(events)
        assert await log.entries() == (5, [Entry(pod(), "u2", 5, 5, b"again")])

    async def test_the_listener_learns_of_every_commit_before_the_writer(self, log: Log):
        """Batches arrive in revision order, and an appender returns after the listener."""
        notified: list[int] = []
        log.subscribe(lambda events: notified.extend(event.revision for event in events))

        async def write(number: int) -> None:
            event = await log.append(create(pod(f"p{number}")))
            assert event.revision in notified

        await asyncio.gather(*(write(i) for i in range(50)))
        assert notified == list(range(2, 52))

    async def test_reading_after_a_revision_is_bounded(self, log: Log):
        """`limit`, `until` and `resource` each narrow what is read."""
        for i in range(4):
            await log.append(create(pod(f"p{i}")))
            await log.append(create(Key("nodes", "", f"n{i}")))
        assert [event.revision for event in await log.after(3, 2)] == [4, 5]
        assert [event.revision for event in await log.after(3, 100, until=5)] == [4, 5]
        assert [event.revision for event in await log.after(3, 2, resource="nodes")] == [5, 7]

    async def test_the_past_can_be_listed(self, log: Log):
        """Objects as of a revision, by key, of one namespace or of all; other resources are left out."""
        first = await log.append(create(pod("a", "x")))
        await log.append(create(pod("b", "x-y")))
        await log.append(create(Key("nodes", "", "n")))
        updated = await log.append(update(first))
        await log.append(delete(updated))
        then = await log.at(5, "pods")
        assert [(entry.key.path, entry.revision, entry.created) for entry in then] == [
            ("x-y/b", 3, 3),
            ("x/a", 5, 2),
        ]
        assert [entry.key.name for entry in await log.at(4, "pods", "x")] == ["a"]
        assert [entry.revision for entry in await log.at(3, "pods", "x")] == [2]
        assert await log.at(6, "pods", "x") == []
        assert await log.at(1, "pods") == []

    async def test_the_future_cannot_be_listed(self, log: Log):
        """A revision that is not written yet is refused."""
        with pytest.raises(FutureRevisionError):
            await log.at(2, "pods")

    async def test_compaction_forgets_what_was_superseded(self, log: Log):
        """States that ended at or before the revision go; current ones and later history stay."""
        kept = await log.append(create(pod("kept")))
        event = await log.append(create(pod("a")))
        event = await log.append(update(event))
        gone = await log.append(create(pod("gone")))
        await log.append(delete(gone))
        await log.append(update(event, b"3"))
        await log.compact(6)
        assert await log.compacted() == 6
        assert [event.revision for event in await log.after(6, 10)] == [7]
        assert (await log.after(6, 10))[0].previous_value == b"2"
        assert [entry.revision for entry in await log.at(6, "pods")] == [4, kept.revision]
        with pytest.raises(CompactedError):
            await log.after(5, 10)
        with pytest.raises(CompactedError):
            await log.at(5, "pods")

    async def test_compaction_never_reuses_a_revision(self, log: Log):
        """Deleting the last object and compacting everything does not turn the clock back."""
        event = await log.append(create(pod()))
        event = await log.append(delete(event))
        await log.compact(3)
        assert await log.revision() == 3
        assert (await log.append(create(pod()))).revision == 4
        await log.compact(4)
        assert [event.revision for event in await log.after(4, 10)] == []
        assert await log.entries() == (4, [Entry(pod(), "u1", 4, 4, b"1")])

    async def test_compaction_goes_forward_only(self, log: Log):
        """Compacting to an older revision does nothing; to a future one is refused."""
        for i in range(5):
            await log.append(create(pod(f"p{i}")))
        await log.compact(4)
        await log.compact(3)
        assert await log.compacted() == 4
        with pytest.raises(FutureRevisionError):
            await log.compact(7)

    async def test_the_time_line_knows_the_revision(self, log: Log):
        """Component events are put behind the newest revision and keep their order."""
        await log.record(ComponentEvent(0, "apiserver", "started", "1.35", "A=true", START))
        await log.append(create(pod()))
        await log.record(ComponentEvent(0, "scheduler", "started", "1.35", "", START))
        await log.record(ComponentEvent(0, "apiserver", "stopped", "1.35", "", START))
        assert [(event.revision, event.component) for event in await log.timeline()] == [
            (1, "apiserver"),
            (2, "scheduler"),
            (2, "apiserver"),
        ]
        assert [event.component for event in await log.timeline(2)] == ["scheduler", "apiserver"]
        first = (await log.timeline())[0]
        assert first == ComponentEvent(1, "apiserver", "started", "1.35", "A=true", START)

    async def test_a_closed_log_refuses(self, log: Log):
        """A closed log has finished the writes it had accepted and refuses later ones; it closes twice."""
        accepted = asyncio.ensure_future(log.append(create(pod())))
        await asyncio.sleep(0)
        await log.close()
        assert (await accepted).revision == 2
        with pytest.raises(StorageError):
            await log.append(create(pod("b")))
        await log.close()


class TestStore:
    """Reads from memory."""

    async def test_a_write_is_seen_at_once(self, store: CachedStore):
        """A finished write is in memory when the call returns."""
        event = await store.write(create(pod()))
        assert store.revision == event.revision
        assert store.get(pod()) == Entry(pod(), "u1", 2, 2, b"1")
        await store.write(delete(event))
        assert store.get(pod()) is None

    async def test_lists_are_in_etcds_order(self, store: CachedStore):
        """Namespaces compare with the slash that ends them: `a-b/` is before `a/`."""
        for namespace, name in [("a", "z"), ("a-b", "x"), ("a", "b"), ("", "n")]:
            await store.write(create(Key("pods", namespace, name)))
        assert [entry.key.path for entry in store.list("pods").entries] == ["n", "a-b/x", "a/b", "a/z"]
        assert [entry.key.path for entry in store.list("pods", "a").entries] == ["a/b", "a/z"]
        assert store.list("pods", "nowhere").entries == []
        assert store.list("nodes").entries == []

    @pytest.mark.parametrize("limit", [1, 2, 3, 7, 12, 13])
    @pytest.mark.parametrize("namespace", [None, "a"])
    async def test_pages_make_up_the_whole(self, store: CachedStore, limit: int, namespace: str | None):
        """Following `last` visits everything once, and `remaining` counts down to nothing."""
        for i in range(12):
            await store.write(create(pod(f"p{i % 6}", "ab"[i // 6])))
        whole = store.list("pods", namespace).entries
        seen: list[Entry] = []
        after = None
        while True:
            page = store.list("pods", namespace, after, limit)
            seen += page.entries
            assert page.remaining == len(whole) - len(seen)
            after = page.last
            if after is None:
                break
            assert len(page.entries) == limit
        assert seen == whole

    async def test_a_page_goes_on_behind_what_has_gone(self, store: CachedStore):
        """The key to go on behind need not exist any more."""
        events = [await store.write(create(pod(name, ns))) for ns in "ab" for name in "xyz"]
        await store.write(delete(events[2]))
        page = store.list("pods", None, events[2].key, 2)
        assert [entry.key.path for entry in page.entries] == ["b/x", "b/y"]

    async def test_filters_come_before_limits(self, store: CachedStore):
        """A page is filled with what matches."""
        for i in range(10):
            await store.write(create(pod(f"p{i}"), str(i % 2).encode()))
        page = store.list("pods", "default", None, 3, lambda entry: entry.value == b"1")
        assert [entry.key.name for entry in page.entries] == ["p1", "p3", "p5"]
        assert page.last == pod("p5")
        assert page.remaining == 4

    async def test_the_past_from_memory_equals_the_past_from_the_log(self, store: CachedStore, log: Log):
        """Undoing recent events gives what the log says, at every revision."""
        event = await store.write(create(pod("a")))
        event = await store.write(update(event))
        await store.write(create(pod("b", "other")))
        event = await store.write(delete(event))
        await store.write(create(pod("a"), b"new", "u2"))
        for revision in range(1, 7):
            for namespace in (None, "default"):
                page = await store.list_at(revision, "pods", namespace)
                assert page.revision == revision
                assert page.entries == await log.at(revision, "pods", namespace)

    async def test_the_past_is_paged(self, store: CachedStore):
        """A continued list at a revision does not see what came later."""
        for i in range(5):
            await store.write(create(pod(f"p{i}")))
        page = store.list("pods", None, None, 2)
        await store.write(create(pod("p25")))
        rest = await store.list_at(page.revision, "pods", None, page.last, 10)
        assert [entry.key.name for entry in rest.entries] == ["p2", "p3", "p4"]

    async def test_a_cache_begins_when_it_is_filled(self, store: CachedStore):
        """A cache begins with the store, or when it is filled again; the log knows the past all the same."""
        began = store.cached_since("pods")
        for i in range(3):
            await store.write(create(pod(f"p{i}")))
        store.refill("widgets.example.com")
        assert (store.cached_since("pods"), store.cached_since("widgets.example.com")) == (began, began + 3)
        assert store.horizon() == 0

    async def test_fillings_of_a_cache_are_counted(self, store: CachedStore):
        """A cache is filled with what is there: as the store begins, and whenever it is filled again."""
        await store.write(create(pod("p0")))
        await store.write(create(pod("p1")))
        assert store.fillings("pods") == (1, 0)

        store.refill("pods")

        assert store.fillings("pods") == (2, 2)

    async def test_the_horizon_moves_with_compaction(self, store: CachedStore):
        """Compacted revisions are refused; one from before the cache of a young resource is known."""
        for i in range(5):
            await store.write(create(pod(f"p{i}")))
        began = store.cached_since("pods")
        store.begin_cache("widgets.example.com", 4)
        assert (store.cached_since("pods"), store.cached_since("widgets.example.com")) == (began, 4)
        assert (await store.list_at(2, "widgets.example.com")).entries == []
        await store.compact(3)
        assert store.horizon() == 3
        with pytest.raises(CompactedError):
            await store.list_at(2, "pods")
        with pytest.raises(CompactedError):
            store.watch("widgets.example.com", None, None, 2)
        assert len((await store.list_at(3, "pods")).entries) == 2

    async def test_the_future_is_refused(self, store: CachedStore):
        """Lists and watches from a revision that is not written yet are refused."""
        with pytest.raises(FutureRevisionError):
            await store.list_at(2, "pods")
        with pytest.raises(FutureRevisionError):
            store.watch("pods", None, None, 2)

    async def test_waiting_for_a_revision(self, store: CachedStore):
        """`wait_for` returns when the revision is applied, and gives up in time."""
        waiting = asyncio.ensure_future(store.wait_for(3, 30))
        await store.write(create(pod("a")))
        assert not waiting.done()
        await store.write(create(pod("b")))
        await waiting
        await store.wait_for(3, 0)
        with pytest.raises(FutureRevisionError):
            await store.wait_for(4, 0.01)

    async def test_a_new_store_loads_the_projection(self, store: CachedStore, log: Log):
        """A store opened over a log that has history answers as the one that wrote it."""
        for i in range(20):
            event = await store.write(create(pod(f"p{i}", f"ns{i % 3}")))
        await store.write(delete(event))
        from storage_cases import CLOCK

        another = await CachedStore.open(log, CLOCK)
        assert another.revision == store.revision
        assert another.list("pods") == store.list("pods")
        await another.close()
