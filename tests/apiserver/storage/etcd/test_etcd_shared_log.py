"""One log with etcd's API and our own API servers: what either writes, the other has."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from etcd_calls import LocalClient, RefusedError
from storage_cases import create, delete, pod, update, url_in

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd.backing import (
    Commit,
    ConflictError,
    LeaseRecord,
    Record,
    Transaction,
    Write,
)
from kubeskew.apiserver.storage.etcd.keys import OPAQUE, refusal
from kubeskew.apiserver.storage.etcd.log_backing import API_SERVER, LogBacking
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import Log
from kubeskew.apiserver.storage.memory_log import MemoryLog, MemoryRecords
from kubeskew.apiserver.storage.records import Key, Verb
from kubeskew.apiserver.storage.sql_log import LogReader, SQLLog
from kubeskew.apiserver.storage.store import CachedStore

CLOCK = SystemClock()
POD = b"/registry/pods/default/a"
LEASE = b"/registry/masterleases/10.0.0.1"
JSON = b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"default","uid":"u1"}}\n'
LATER = JSON.replace(b'"u1"', b'"u1","generation":2')
PROTOBUF = b"k8s\x00\x0a\x09\x0a\x02v1"

Opened = tuple[LogBacking, CachedStore, Log]


@pytest.fixture(params=["memory", "file"])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    """Etcd's API and an API server over one log, each as in a process of its own."""
    records = MemoryRecords()

    async def log() -> Log:
        if request.param == "memory":
            return MemoryLog(records, shared=True)
        return await SQLLog.open(url_in(tmp_path), CLOCK)

    backing = await LogBacking.open(await log(), CLOCK)
    server_log = await log()
    store = await CachedStore.open(server_log, CLOCK)
    yield backing, store, server_log
    await backing.close()
    await store.close()


def no_leap(revision: int, records: Sequence[Record]) -> None:
    raise AssertionError(f"nobody has compacted, but there is a leap to {revision}")


def put(key: bytes, value: bytes, at: int = 0, created: int = 0, version: int = 1) -> Transaction:
    return Transaction([Write(key, value, created, version)], [(key, at)])


async def test_an_api_server_has_what_etcds_api_wrote(opened: Opened):
    """The object is as our server would have stored it, with uid and verbs; its author is the API server."""
    backing, store, log = opened
    watch = store.watch("pods", None, None, 1)
    await backing.append(put(POD, JSON))
    await backing.append(put(POD, LATER, 2, 2, 2))
    await backing.append(Transaction([Write(POD, None)], [(POD, 3)]))
    assert await store.refresh() == 4
    events = await anext(aiter(watch))
    assert [(event.verb, event.uid, event.author) for event in events] == [
        (verb, "u1", API_SERVER) for verb in (Verb.CREATE, Verb.UPDATE, Verb.DELETE)
    ]
    assert [event.key for event in events] == [pod("a")] * 3
    assert [event.value for event in events] == [JSON[:-1], LATER[:-1], LATER[:-1]]
    assert [event.created for event in await log.after(0, 10)] == [2, 2, 2]


async def test_etcds_api_has_what_an_api_server_wrote(opened: Opened):
    """Revisions, creation revisions and versions go on, whoever writes; deletions are seen."""
    backing, store, _ = opened
    seen: list[Commit] = []
    backing.subscribe(seen.extend, no_leap)
    event = await store.write(create(pod("a"), JSON[:-1]))
    event = await store.write(update(event, LATER[:-1]))
    assert await backing.sync() == 3
    assert list(await backing.at(3)) == [Record(POD, LATER, 2, 3, 2, 0)]
    await backing.append(put(POD, JSON, 3, 2, 3))
    await store.refresh()
    await store.write(delete(event, 4))
    await backing.sync()
    assert seen == [
        Commit(2, [Record(POD, JSON, 2, 2, 1, 0)]),
        Commit(3, [Record(POD, LATER, 2, 3, 2, 0)]),
        Commit(4, [Record(POD, JSON, 2, 4, 3, 0)]),
        Commit(5, [Record(POD, None, 0, 5, 0, 0)]),
    ]
    assert list(await backing.history(1, 10)) == seen


async def test_an_api_server_in_between_is_a_conflict(opened: Opened):
    """The transaction that rests on an older state is refused, and written once it rests on the newest."""
    backing, store, _ = opened
    await store.write(create(pod("a"), JSON[:-1]))
    with pytest.raises(ConflictError):
        await backing.append(put(POD, JSON))
    assert await backing.sync() == 2
    assert await backing.append(put(POD, LATER, 2, 2, 2)) == 3


@pytest.mark.parametrize(("value", "other"), [(JSON, PROTOBUF), (PROTOBUF, JSON)])
async def test_a_create_under_the_other_name_is_a_conflict(opened: Opened, value: bytes, other: bytes):
    """A key that does not exist for one process exists, whatever name another has given it in the log."""
    backing, _, log = opened
    second = await LogBacking.open(log, CLOCK)
    await backing.append(put(POD, other))
    with pytest.raises(ConflictError):
        await second.append(put(POD, value))
    with pytest.raises(ConflictError):
        await second.append(Transaction([Write(LEASE, b"x", version=1)], [(LEASE, 0), (POD, 0)]))
    assert await second.sync() == 2
    assert await second.append(put(POD, value, 2, 2, 2)) == 3


async def test_other_keys_take_part_in_the_sequence(opened: Opened):
    """They are no objects of any API resource, and their bytes stay."""
    backing, store, log = opened
    await backing.append(
        Transaction([Write(LEASE, JSON, version=1), Write(POD, JSON, version=1)], [(LEASE, 0), (POD, 0)])
    )
    await store.write(create(pod("b"), JSON))
    assert [entry.key.name for entry in store.list("pods").entries] == ["a", "b"]
    assert [(event.revision, event.sub, event.key.resource) for event in await log.after(0, 10)] == [
        (2, 0, OPAQUE), (2, 1, "pods"), (3, 0, "pods")
    ]  # fmt: skip
    assert store.get(Key(OPAQUE, "", LEASE.decode())).value == JSON


async def test_a_key_goes_on_when_its_value_becomes_an_object(opened: Opened):
    """After a change of the media type one transaction moves it, and its creation and version stay."""
    backing, store, _ = opened
    seen: list[Commit] = []
    backing.subscribe(seen.extend, no_leap)
    await backing.append(put(POD, PROTOBUF))
    assert [entry.key.resource for entry in (await store._log.entries())[1]] == [OPAQUE]
    await backing.append(put(POD, JSON, 2, 2, 2))
    await store.refresh()
    assert [entry.key for entry in store.list("pods").entries] == [pod("a")]
    await backing.append(put(POD, PROTOBUF, 3, 2, 3))
    await backing.append(put(POD, JSON, 4, 2, 4))
    await backing.append(put(POD, LATER, 5, 2, 5))
    expected = [
        Record(POD, value, 2, revision, revision - 1, 0)
        for revision, value in ((2, PROTOBUF), (3, JSON), (4, PROTOBUF), (5, JSON), (6, LATER))
    ]
    assert seen == [Commit(record.revision, [record]) for record in expected]
    for record in expected:
        assert list(await backing.at(record.revision)) == [record]
        assert list(await backing.at(record.revision, POD, b"")) == [record]
    await backing.append(Transaction([Write(POD, None)], [(POD, 6)]))
    assert list(await backing.at(7)) == []
    assert list(await backing.history(1, 10)) == seen


async def test_a_log_of_binary_objects_is_refused_in_one_line(opened: Opened):
    """The line names the flag; keys that are no objects are no reason."""
    backing, _, log = opened
    await backing.append(put(LEASE, PROTOBUF))
    await backing.append(put(POD, JSON))
    assert refusal((await log.entries())[1]) is None
    await backing.append(put(POD, PROTOBUF, 3, 3, 2))
    await backing.append(put(b"/registry/secrets/default/s", b"k8s:enc:aescbc:v1:k:\x00"))
    line = refusal((await log.entries())[1])
    assert line is not None
    assert "--storage-media-type=application/json" in line
    assert "/registry/pods/default/a and 1 more" in line
    assert "\n" not in line


async def test_a_restart_knows_versions_leases_and_compaction(tmp_path: Path):
    """Nothing of what etcd's API answers is lost with the process."""
    url = url_in(tmp_path)
    backing = await LogBacking.open(await SQLLog.open(url, CLOCK), CLOCK)
    await backing.append(put(POD, JSON))
    await backing.append(put(POD, LATER, 2, 2, 2))
    await backing.grant(LeaseRecord(7, 60))
    await backing.append(Transaction([Write(LEASE, b"x", lease=7, version=1)], [(LEASE, 0)]))
    await backing.append(put(b"/registry/pods/default/b", PROTOBUF))
    await backing.compact(4)
    before: Sequence[Record] = await backing.at(5)
    await backing.close()

    backing = await LogBacking.open(await SQLLog.open(url, CLOCK), CLOCK)
    assert (backing.revision, backing.compacted) == (5, 4)
    assert await backing.at(5) == before
    assert Record(POD, LATER, 2, 3, 2, 0) in before
    assert Record(LEASE, b"x", 4, 4, 1, 7) in before
    assert list(await backing.leases()) == [LeaseRecord(7, 60)]
    assert [commit.revision for commit in await backing.history(3, 10)] == [4, 5]
    await backing.append(put(b"/registry/pods/default/b", JSON, 5, 5, 2))
    await backing.append(Transaction([Write(LEASE, None)], [(LEASE, 4)], revokes=7))
    assert list(await backing.leases()) == []
    await backing.close()
    async with await LogReader.open(url) as reader:
        assert (await reader.replay()).differences == []


class TestASleeper:
    """Two processes serve etcd's API over one log; one of them does nothing while the other goes on."""

    @pytest.fixture
    async def servers(self, tmp_path: Path) -> AsyncIterator[tuple[LocalClient, LocalClient]]:
        servers = []
        for _ in range(2):
            records = await SQLLog.open(url_in(tmp_path), CLOCK)
            backing = await LogBacking.open(records, CLOCK)
            servers.append(await EtcdServer.open(backing, CLOCK, SeededEntropy(1)))
            assert backing._tail is not None
            backing._tail.cancel()  # it sees others only when it has to
        yield LocalClient(servers[0]), LocalClient(servers[1])
        for server in servers:
            await server.close()

    async def test_it_goes_on_after_a_compaction(self, servers: tuple[LocalClient, LocalClient]):
        """It has all that exists, and none of what was deleted; leases have the keys that are left."""
        busy, sleeper = servers
        lease = (await sleeper.call(pb.LeaseGrantRequest(TTL=600))).ID
        for key in (b"a", b"b"):
            await sleeper.call(pb.PutRequest(key=key, value=b"1", lease=lease))
        await busy.call(pb.DeleteRangeRequest(key=b"a"))
        for value in (b"2", b"3"):
            await busy.call(pb.PutRequest(key=b"c", value=value))
        await busy.call(pb.CompactionRequest(revision=6))
        found = await sleeper.call(pb.RangeRequest(key=b"\0", range_end=b"\0"))
        assert [(kv.key, kv.value, kv.mod_revision) for kv in found.kvs] == [(b"b", b"1", 3), (b"c", b"3", 6)]
        lived = await sleeper.call(pb.LeaseTimeToLiveRequest(ID=lease, keys=True))
        assert list(lived.keys) == [b"b"]
        assert (await sleeper.call(pb.PutRequest(key=b"a"))).header.revision == 7
        with pytest.raises(RefusedError, match="required revision has been compacted"):
            await sleeper.call(pb.RangeRequest(key=b"c", revision=5))

    async def test_its_watches_have_no_gap(self, servers: tuple[LocalClient, LocalClient]):
        """A watch goes on if all that it has not seen is still there; else it ends as compacted."""
        busy, sleeper = servers
        stream = sleeper.watch()
        for number, start in enumerate((0, 4, 5, 9)):
            create = pb.WatchCreateRequest(key=b"a", start_revision=start)
            stream.send(pb.WatchRequest(create_request=create))
            assert (await stream.next()).watch_id == number
        for _ in range(4):
            await busy.call(pb.PutRequest(key=b"a"))
        await busy.call(pb.CompactionRequest(revision=5))
        await sleeper.call(pb.RangeRequest(key=b"a"))
        answers = {answer.watch_id: answer for answer in [await stream.next() for _ in range(3)]}
        assert {number: answer.compact_revision for number, answer in answers.items()} == {0: 5, 1: 5, 2: 0}
        assert [event.kv.mod_revision for event in answers[2].events] == [5]
        for _ in range(4):
            await sleeper.call(pb.PutRequest(key=b"a"))
        events: list[pb.Event] = []
        while len(events) < 5:
            events += (await stream.next()).events
        assert sorted(event.kv.mod_revision for event in events) == [6, 7, 8, 9, 9]
        await stream.close()
