"""A backing that others write, too, and whose commits take time: nothing is lost, nothing is stale."""

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from etcd_calls import LocalClient, RefusedError
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.etcd.backing import Commit, Transaction, Write
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer


class SharedBacking(MemoryBacking):
    """Commits by others are seen at `sync`, or with the next of this process; all take a turn of the loop."""

    def __init__(self) -> None:
        super().__init__()
        self.unseen: list[Commit] = []
        self.interventions: Iterator[Transaction] = iter(())

    def subscribe(self, listener, leap) -> None:
        def deliver(commits: Sequence[Commit]) -> None:
            self.unseen += commits

        self.listener = listener
        super().subscribe(deliver, leap)

    def flush(self) -> None:
        unseen, self.unseen = self.unseen, []
        if unseen:
            self.listener(unseen)

    async def sync(self) -> int:
        await asyncio.sleep(0)
        self.flush()
        return self.revision

    async def append(self, transaction: Transaction) -> int:
        await asyncio.sleep(0)
        other = next(self.interventions, None)
        if other is not None:
            await super().append(other)
        revision = await super().append(transaction)
        self.flush()
        return revision

    async def by_others(self, transaction: Transaction) -> int:
        return await super().append(transaction)


@pytest.fixture
async def shared():
    return SharedBacking()


@pytest.fixture
async def client(shared: SharedBacking):
    server = await EtcdServer.open(shared, LoopClock(), SeededEntropy(1))
    yield LocalClient(server)
    await server.close()


def write(key: bytes, value: bytes, at: int) -> Transaction:
    return Transaction([Write(key, value, at, 2 if at else 1)], [(key, at)])


async def test_reads_see_what_others_wrote(client: LocalClient, shared: SharedBacking):
    """A range that is not serializable shows all that was committed before it."""
    await shared.by_others(write(b"a", b"1", 0))
    assert (await client.call(pb.RangeRequest(key=b"a"))).kvs[0].value == b"1"


async def test_a_failed_compare_is_not_stale(client: LocalClient, shared: SharedBacking):
    """A transaction whose compare fails on old state only succeeds on the newest."""
    await shared.by_others(write(b"a", b"1", 0))
    compare = pb.Compare(key=b"a", target=pb.Compare.MOD, mod_revision=2)
    answer = await client.call(pb.TxnRequest(compare=[compare]))
    assert answer.succeeded


async def test_a_failed_compare_waits_for_nobody(client: LocalClient, shared: SharedBacking):
    """A transaction that writes nothing is answered, also if others write all the time."""

    async def busy_sync() -> int:
        await shared.by_others(write(b"b", b"1", shared._newest(b"b")))
        return await SharedBacking.sync(shared)

    shared.sync = busy_sync
    compare = pb.Compare(key=b"a", target=pb.Compare.MOD, mod_revision=9)
    async with asyncio.timeout(5):
        answer = await client.call(pb.TxnRequest(compare=[compare]))
    assert (answer.succeeded, answer.header.revision) == (False, 2)


async def test_writes_rest_on_the_newest_state(client: LocalClient, shared: SharedBacking):
    """A put that somebody else came before counts on from what that wrote."""
    shared.interventions = iter([write(b"a", b"1", 0), write(b"a", b"2", 2)])
    await client.call(pb.PutRequest(key=b"a", value=b"3"))
    kv = (await client.call(pb.RangeRequest(key=b"a"))).kvs[0]
    assert (kv.create_revision, kv.mod_revision, kv.version, kv.value) == (2, 4, 3, b"3")


async def test_a_range_that_somebody_changes(client: LocalClient, shared: SharedBacking):
    """The deletion of a range takes what came into it until its commit."""
    await client.call(pb.PutRequest(key=b"a"))
    shared.interventions = iter([write(b"b", b"1", 0)])
    assert (await client.call(pb.DeleteRangeRequest(key=b"a", range_end=b"c"))).deleted == 2


async def test_writers_of_one_key_and_of_ranges(client: LocalClient, shared: SharedBacking):
    """Concurrent writers of one key, and those of ranges, are each done once, in some order."""
    puts = [client.call(pb.PutRequest(key=b"a", prev_kv=True)) for _ in range(20)]
    ranges = [client.call(pb.DeleteRangeRequest(key=b"a", range_end=b"c")) for _ in range(5)]
    answers = await asyncio.gather(*puts, *ranges)
    revisions = [answer.header.revision for answer in answers[:20]]
    assert len(set(revisions)) == 20
    deleted = sum(answer.deleted for answer in answers[20:])
    assert shared.revision == 1 + 20 + deleted
    assert sum(not answer.HasField("prev_kv") for answer in answers[:20]) in (deleted, deleted + 1)


async def test_a_compaction_by_others(client: LocalClient, shared: SharedBacking):
    """A revision that another process compacted cannot be read here either."""
    for at in (0, 2, 3):
        await shared.by_others(write(b"a", b"1", at))
    await client.call(pb.RangeRequest(key=b"a", revision=2))
    await shared.compact(4)
    with pytest.raises(RefusedError, match="required revision has been compacted"):
        await client.call(pb.RangeRequest(key=b"a", revision=2))
    assert (await client.call(pb.RangeRequest(key=b"a", revision=4))).count == 1


async def test_a_watch_sees_others(client: LocalClient, shared: SharedBacking):
    """A watch is given what others committed, in order with what this server did."""
    stream = client.watch()
    stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a", range_end=b"\0")))
    await stream.next()
    await shared.by_others(write(b"a", b"1", 0))
    await client.call(pb.PutRequest(key=b"b"))
    events = []
    while len(events) < 2:
        events += (await stream.next()).events
    assert [(event.kv.key, event.kv.mod_revision) for event in events] == [(b"a", 2), (b"b", 3)]
    await stream.close()
