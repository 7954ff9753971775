"""A log is branched off at any kept revision, and the branch is a store like others."""

from datetime import UTC, datetime

import pytest
from damages import fill, opened, sql, value
from storage_cases import CLOCK, create, delete, pod, update, url_in

from kubeskew.apiserver.storage.factory import MemoryStorage, SQLStorage
from kubeskew.apiserver.storage.interfaces import (
    CompactedError,
    DamageError,
    FutureRevisionError,
    StorageError,
)
from kubeskew.apiserver.storage.projection import digest
from kubeskew.apiserver.storage.records import ComponentEvent
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.sqlite.database import mark_of, read
from kubeskew.apiserver.storage.sqlite.maintenance import branch
from kubeskew.apiserver.storage.store import CachedStore

NEWEST = 16  # of `fill`
NOW = datetime(2026, 1, 2, tzinfo=UTC)


def note(revision, what="forked"):
    return ComponentEvent(revision, "store", what, "", "", NOW, "from elsewhere")


def url_of(path):
    return f"sqlite+aiosqlite:///{path}"


async def filled(storage, url):
    """A log of revisions 2 to 7: `a` is changed twice, `b` goes, comes again."""
    log = await storage.log(url, CLOCK)
    first = await log.append(create(pod("a")))
    other = await log.append(create(pod("b")))
    await log.record(ComponentEvent(0, "scheduler", "started", "1.35", "", NOW))
    second = await log.append(update(first))
    await log.append(delete(other))
    await log.record(ComponentEvent(0, "scheduler", "started", "1.36", "", NOW))
    await log.append(create(pod("b"), b"again", "u2"))
    await log.append(update(second, b"3"))
    return log


@pytest.fixture(params=["sql", "memory"])
def storage(request):
    return SQLStorage() if request.param == "sql" else MemoryStorage()


@pytest.mark.parametrize("revision", range(1, 8))
async def test_a_branch_has_what_was_there(storage, tmp_path, revision):
    """A branch has the events, objects and time line up to its revision, and goes on from there by itself."""
    source, target = url_of(tmp_path / "one.db"), url_of(tmp_path / "two.db")
    log = await filled(storage, source)
    before = await log.after(1, 100), await log.timeline()

    made = await storage.branch(source, target, note(revision))

    assert (made.revision, made.events, made.source_revision) == (revision, revision - 1, 7)
    async with await CachedStore.open(await storage.log(target, CLOCK), CLOCK) as store:
        assert store.revision == revision
        at = await log.at(revision, "pods")
        assert digest(store.list("pods").entries) == digest(at)
        assert made.objects == len(at)
        written = await store.write(create(pod("new")))
        assert written.revision == revision + 1
    reader = await storage.reader(target)
    moments = [moment async for moment in reader.events()]
    assert [m.version for m in moments if isinstance(m, ComponentEvent)] == [
        *(["1.35"] if revision >= 3 else []),
        *(["1.36"] if revision >= 5 else []),
        "",
    ]
    replayed, projected = await reader.hashes()
    assert replayed == projected
    await reader.close()
    assert (await log.after(1, 100), await log.timeline()) == before
    await log.close()


@pytest.mark.parametrize(("revision", "error"), [(8, FutureRevisionError), (3, CompactedError)])
async def test_what_cannot_be_had_is_refused(storage, tmp_path, revision, error):
    """No branch begins at a revision that is compacted or not written yet, and none is left behind."""
    source, target = url_of(tmp_path / "one.db"), url_of(tmp_path / "two.db")
    log = await filled(storage, source)
    await log.compact(4)
    with pytest.raises(error):
        await storage.branch(source, target, note(revision))
    assert sorted(path.name for path in tmp_path.glob("two*")) == []
    await log.close()


@pytest.mark.parametrize("revision", range(5, 8))
async def test_a_compacted_log_is_branched(storage, tmp_path, revision):
    """A branch of a compacted log has what is left, also at the revision of a deletion that is forgotten."""
    source, target = url_of(tmp_path / "one.db"), url_of(tmp_path / "two.db")
    log = await filled(storage, source)
    expected = digest(await log.at(revision, "pods"))
    await log.compact(5)
    await storage.branch(source, target, note(revision))
    async with await CachedStore.open(await storage.log(target, CLOCK), CLOCK) as store:
        assert digest(store.list("pods").entries) == expected
        assert store.horizon() == 5
        assert (await store.write(create(pod("new")))).revision == revision + 1
    reader = await storage.reader(target)
    assert len({*(await reader.hashes())}) == 1
    await reader.close()
    await log.close()


async def test_every_branch_has_an_id_of_its_own(tmp_path):
    """A branch has another id than its source and than other branches, and its own high-water mark."""
    await fill(tmp_path)
    source = str(tmp_path / "events.db")
    ids = set()
    for what in ("forked", "rewound"):
        target = str(tmp_path / f"{what}.db")
        branch(source, target, note(9, what))
        assert read(target) == 9
        async with await LogReader.open(url_of(target)) as reader:
            ids.add(await reader.store_id())
            assert (await reader.replay()).differences == []
    async with await LogReader.open(url_in(tmp_path)) as reader:
        ids.add(await reader.store_id())
    assert len(ids) == 3
    assert "" not in ids


async def test_an_id_stays(tmp_path):
    """A store keeps its id when it is opened again."""
    ids = []
    for _ in range(2):
        await (await SQLLog.open(url_in(tmp_path), CLOCK)).close()
        async with await LogReader.open(url_in(tmp_path)) as reader:
            ids.append(await reader.store_id())
    assert ids[0] == ids[1] != ""


async def test_a_damaged_log_is_not_branched(tmp_path):
    """A branch whose objects are not those that its newest event reports is refused and removed."""
    await fill(tmp_path)
    sql(tmp_path, "UPDATE events SET value = ? WHERE revision = 5", value("other"))
    target = tmp_path / "branch.db"
    with pytest.raises(DamageError, match="does not come to"):
        branch(str(tmp_path / "events.db"), str(target), note(9))
    assert not target.exists()
    assert not mark_of(str(target)).exists()


async def test_no_log_is_reported(tmp_path):
    """A log that is not there is a StorageError, and no file comes of it."""
    with pytest.raises(StorageError, match=r"one\.db"):
        branch(str(tmp_path / "one.db"), str(tmp_path / "two.db"), note(1))
    assert [*tmp_path.iterdir()] == []


async def test_a_running_log_is_branched(tmp_path):
    """A store that is open goes on while it is branched."""
    async with await opened(tmp_path) as store:
        first = await store.write(create(pod("a")))
        branch(str(tmp_path / "events.db"), str(tmp_path / "two.db"), note(first.revision))
        assert (await store.write(update(first))).revision == first.revision + 1
