"""Cases of an API server's storage, over our store and over etcd's API, which share a log.

Their subjects are those of upstream's tests of storages (k8s.io/apiserver/pkg/storage/testing, 1.36). Each
is tried with every kind of writer and reader, so that what one writes the other has.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, NamedTuple

import pytest
from api_server_storages import (
    COMPACTED,
    FUTURE,
    ConflictError,
    Found,
    InEtcd,
    InStore,
    Listed,
    Seen,
    Storage,
    TooOldOrNewError,
)
from etcd_calls import LocalClient

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.memory_log import MemoryLog, MemoryRecords
from kubeskew.apiserver.storage.store import CachedStore

CLOCK = SystemClock()
FAR = 1 << 40


class Sides(NamedTuple):
    writer: Storage
    reader: Storage


@pytest.fixture(
    params=[("store", "store"), ("etcd", "etcd"), ("store", "etcd"), ("etcd", "store")], ids="-".join
)
async def sides(request: pytest.FixtureRequest) -> AsyncIterator[Sides]:
    """A writer and a reader of one log, each in a server of its own unless they are of one kind."""
    records = MemoryRecords()
    store = await CachedStore.open(MemoryLog(records, shared=True), CLOCK)
    backing = await LogBacking.open(MemoryLog(records, shared=True), CLOCK)
    server = await EtcdServer.open(backing, CLOCK, SeededEntropy(1))
    kinds: dict[str, Storage] = {"store": InStore(store), "etcd": InEtcd(LocalClient(server))}
    yield Sides(*(kinds[kind] for kind in request.param))
    await server.close()
    await store.close()


async def refused(call: Coroutine[Any, Any, Any]) -> Found | None:
    """Gives what was there, of a write that is refused."""
    with pytest.raises(ConflictError) as caught:
        await call
    return caught.value.current


Write = Callable[[Storage], Coroutine[Any, Any, int]]
AT_3 = Found("ns/a", 2, 3)


@pytest.mark.parametrize(
    ("write", "current"),
    [
        pytest.param(lambda storage: storage.create("ns/a", 9), AT_3, id="create what is there"),
        pytest.param(lambda storage: storage.update("ns/a", 9, 2), AT_3, id="update of an old revision"),
        pytest.param(lambda storage: storage.update("ns/a", 9, FAR), AT_3, id="update of a future revision"),
        pytest.param(lambda storage: storage.update("ns/b", 9, 2), None, id="update of what never was"),
        pytest.param(lambda storage: storage.update("ns/gone", 9, 4), None, id="update of what is gone"),
        pytest.param(lambda storage: storage.delete("ns/a", 2), AT_3, id="deletion of an old revision"),
        pytest.param(lambda storage: storage.delete("ns/gone", 4), None, id="deletion of what is gone"),
    ],
)
async def test_writes_that_are_refused(sides: Sides, write: Write, current: Found | None):
    """A write that rests on another state than there is changes nothing, and shows what is there."""
    await sides.writer.create("ns/a", 1)
    await sides.writer.update("ns/a", 2, 2)
    await sides.writer.create("ns/gone", 1)
    await sides.writer.delete("ns/gone", 4)
    assert await refused(write(sides.reader)) == current
    assert await sides.reader.listed() == Listed(5, ["ns/a"], 0)
    assert await sides.reader.get("ns/a") == AT_3


async def test_a_life_and_the_next(sides: Sides):
    """Every write moves the revision, a deletion too, and what is created again is another object."""
    writer, reader = sides
    assert await writer.create("ns/a", 1) == 2
    assert await writer.update("ns/a", 2, 2) == 3
    assert await reader.get("ns/a") == Found("ns/a", 2, 3)
    assert await writer.delete("ns/a", 3) == 4
    assert await reader.get("ns/a") is None
    assert await writer.create("ns/a", 3) == 5
    assert await reader.get("ns/a") == Found("ns/a", 3, 5)


async def test_updates_at_once(sides: Sides):
    """Those who read, add one, and try again after a conflict lose none of their additions, on both sides."""
    await sides.writer.create("ns/a", 0)

    async def add(storage: Storage) -> None:
        found = await storage.get("ns/a")
        while found is not None:
            try:
                await storage.update("ns/a", found.number + 1, found.revision)
                return
            except ConflictError as error:
                found = error.current

    await asyncio.gather(*(add(side) for _ in range(10) for side in sides))
    assert await sides.reader.get("ns/a") == Found("ns/a", 20, 22)


@pytest.mark.parametrize(
    ("namespace", "paths"),
    [
        ("", ["ns-2/a", "ns/a", "ns/ab", "nsx/a"]),
        ("ns", ["ns/a", "ns/ab"]),
        ("ns-2", ["ns-2/a"]),
        ("nsx", ["nsx/a"]),
        ("n", []),
        ("none", []),
    ],
)
async def test_lists_of_namespaces(sides: Sides, namespace: str, paths: list[str]):
    """A list has what is in the namespace, not what is in one whose name begins with its name."""
    for path in ("nsx/a", "ns/ab", "ns-2/a", "ns/a"):
        await sides.writer.create(path, 1)
    assert await sides.reader.listed(namespace) == Listed(5, paths, 0)
    assert await sides.reader.listed(namespace, revision=5) == Listed(5, paths, 0)


@pytest.mark.parametrize(
    ("revision", "found"),
    [
        (2, ["first/bar"]),
        (3, ["first/bar", "second/bar"]),
        (4, ["first/bar", "second/bar", "second/foo"]),
        (5, ["first/bar", "second/bar", "second/foo"]),
        (6, ["first/bar", "second/foo"]),
        (7, ["first/bar", "second/foo", "third/a"]),
        (0, ["first/bar", "second/foo", "third/a"]),
        (8, FUTURE),
        (FAR, FUTURE),
    ],
)
async def test_lists_of_revisions(sides: Sides, revision: int, found: list[str] | str):
    """A list at a revision is of what was there then; a revision that is to come is refused."""
    await changed(sides.writer)
    if isinstance(found, str):
        with pytest.raises(TooOldOrNewError, match=found):
            await sides.reader.listed(revision=revision)
    else:
        assert await sides.reader.listed(revision=revision) == Listed(revision or 7, found, 0)


async def changed(storage: Storage) -> None:
    """Three objects, of which then one is updated, one deleted, and another one created: revisions 2 to 7."""
    for path in ("first/bar", "second/bar", "second/foo"):
        await storage.create(path, 1)
    await storage.update("second/foo", 2, 4)
    await storage.delete("second/bar", 3)
    await storage.create("third/a", 1)


@pytest.mark.parametrize(
    ("limit", "pages"),
    [
        (1, [["first/bar"], ["second/bar"], ["second/foo"]]),
        (2, [["first/bar", "second/bar"], ["second/foo"]]),
        (3, [["first/bar", "second/bar", "second/foo"]]),
        (9, [["first/bar", "second/bar", "second/foo"]]),
    ],
)
async def test_pages_of_a_revision(sides: Sides, limit: int, pages: list[list[str]]):
    """Pages that go on at the first one's revision do not see what is written meanwhile, and count what is
    left.
    """
    writer, reader = sides
    for path in ("first/bar", "second/bar", "second/foo"):
        await writer.create(path, 1)
    first = await reader.listed(limit=limit)
    await writer.delete("second/bar", 3)
    await writer.create("second/aaa", 1)
    found = [first]
    while found[-1].remaining:
        found.append(await reader.listed(revision=first.revision, after=found[-1].paths[-1], limit=limit))
    assert [page.paths for page in found] == pages
    assert [page.remaining for page in found] == [
        3 - sum(map(len, pages[: n + 1])) for n in range(len(pages))
    ]
    assert {page.revision for page in found} == {4}


async def test_pages_after_a_compaction(sides: Sides):
    """Once the first page's revision is gone the next one is refused, and can go on at the newest."""
    writer, reader = sides
    for path in ("first/bar", "second/bar", "second/foo"):
        await writer.create(path, 1)
    first = await reader.listed(limit=1)
    await writer.update("second/foo", 2, 4)
    await writer.create("third/a", 1)
    await reader.listed()
    await reader.compact(6)
    with pytest.raises(TooOldOrNewError, match=COMPACTED):
        await reader.listed(revision=first.revision, after="first/bar", limit=1)
    assert await reader.listed(after="first/bar", limit=1) == Listed(6, ["second/bar"], 2)
    assert await reader.listed(revision=6, after="second/bar") == Listed(6, ["second/foo", "third/a"], 0)


EVENTS = [
    Seen("create", "first/bar", 1, None, 2),
    Seen("create", "second/bar", 1, None, 3),
    Seen("create", "second/foo", 1, None, 4),
    Seen("update", "second/foo", 2, 1, 5),
    Seen("delete", "second/bar", None, 1, 6),
    Seen("create", "third/a", 1, None, 7),
]


@pytest.mark.parametrize(
    ("since", "ahead"), [(1, True), (1, False), (3, False), (5, False), (6, False)], ids=str
)
@pytest.mark.parametrize("scope", ["", "second", "second/foo", "second/bar", "third"])
async def test_watches(sides: Sides, scope: str, since: int, ahead: bool):
    """A watch has each event of its scope that is newer than where it begins, once, in order, with the state
    before; a deletion has a revision of its own. It may begin before or after these are written.
    """
    writer, reader = sides
    if ahead:
        watching = await reader.watch(scope, since)
    await changed(writer)
    if not ahead:
        watching = await reader.watch(scope, since)
    wanted = [
        event
        for event in EVENTS
        if event.revision > since and (event.path == scope or event.path.startswith(f"{scope}/") or not scope)
    ]
    assert await watching.seen(len(wanted)) == wanted
    path = scope if "/" in scope else f"{scope or 'first'}/last"
    if scope != "second/foo":
        newest = await writer.create(path, 7)
        assert await watching.seen(1) == [Seen("create", path, 7, None, newest)]
    await watching.close()


@pytest.mark.parametrize(("since", "there"), [(1, False), (3, False), (6, True), (7, True)])
async def test_watches_after_a_compaction(sides: Sides, since: int, there: bool):
    """A watch of what is gone is refused; later ones go on without a gap, as one that ran meanwhile does."""
    writer, reader = sides
    await changed(writer)
    running = await reader.watch("", 1)
    assert await running.seen(6) == EVENTS
    await reader.compact(6)
    if there:
        watching = await reader.watch("", since)
        wanted = EVENTS[since - 1 :]
        assert await watching.seen(len(wanted)) == wanted
        await watching.close()
    else:
        with pytest.raises(TooOldOrNewError, match=COMPACTED):
            await (await reader.watch("", since)).seen(1)
    newest = await writer.create("last/a", 1)
    assert await running.seen(1) == [Seen("create", "last/a", 1, None, newest)]
    await running.close()


async def test_a_reader_who_takes_its_time(sides: Sides):
    """A watch that nobody reads for a while has everything when it is read, also while more is written."""
    writer, reader = sides
    watching = await reader.watch("ns", 1)
    for number in range(40):
        await writer.create(f"ns/{number:03}", number)
    first = await watching.seen(10)
    for number in range(40, 60):
        await writer.create(f"ns/{number:03}", number)
    rest = await watching.seen(50)
    assert [event.number for event in (*first, *rest)] == [*range(60)]
    await watching.close()
