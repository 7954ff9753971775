"""Watches of etcd's API."""

import asyncio

import pytest
from etcd_calls import LocalClient, Stream

from kubeskew.apiserver.storage.etcd import watch_streams
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer

COMPACTED = "etcdserver: mvcc: required revision has been compacted"
PROGRESS = pb.WatchRequest(progress_request=pb.WatchProgressRequest())


def watch(key: bytes = b"a", end: bytes = b"", **options) -> pb.WatchRequest:
    return pb.WatchRequest(create_request=pb.WatchCreateRequest(key=key, range_end=end, **options))


def cancel(number: int) -> pb.WatchRequest:
    return pb.WatchRequest(cancel_request=pb.WatchCancelRequest(watch_id=number))


@pytest.fixture
async def stream(client: LocalClient):
    opened = client.watch()
    yield opened
    await opened.close()


async def put(client: LocalClient, key: bytes = b"a", value: bytes = b"") -> None:
    await client.call(pb.PutRequest(key=key, value=value))


async def delete(client: LocalClient, key: bytes = b"a") -> None:
    await client.call(pb.DeleteRangeRequest(key=key))


async def created(stream: Stream, request: pb.WatchRequest) -> int:
    stream.send(request)
    answer = await stream.next()
    assert answer.created, answer
    return answer.watch_id


async def events(stream: Stream, count: int) -> list[pb.Event]:
    found: list[pb.Event] = []
    while len(found) < count:
        found += (await stream.next()).events
    assert len(found) == count
    return found


def short(found: list[pb.Event]) -> list[tuple[bytes, int, bool]]:
    return [(event.kv.key, event.kv.mod_revision, event.type == pb.Event.DELETE) for event in found]


async def test_what_comes_is_reported(client: LocalClient, stream: Stream):
    """A watch without a start begins after the newest revision, and sees its range only."""
    await put(client, b"b")
    await created(stream, watch(b"b", b"d"))
    for key in (b"a", b"b", b"c", b"d"):
        await put(client, key)
    await delete(client, b"b")
    assert short(await events(stream, 3)) == [(b"b", 4, False), (b"c", 5, False), (b"b", 7, True)]


@pytest.mark.parametrize("trimmed", [False, True], ids=["memory", "backing"])
async def test_what_was_is_reported(client: LocalClient, server: EtcdServer, stream: Stream, trimmed: bool):
    """A start in the past gives all since then, with previous values, wherever the history is."""
    await put(client, value=b"1")
    await put(client, value=b"2")
    await delete(client)
    await put(client, b"b")
    for revision in (2, 3, 4) if trimmed else ():
        server.keyspace._trim(revision)
    await created(stream, watch(b"a", b"\0", start_revision=2, prev_kv=True))
    found = await events(stream, 4)
    assert short(found) == [(b"a", 2, False), (b"a", 3, False), (b"a", 4, True), (b"b", 5, False)]
    assert [event.prev_kv.value for event in found] == [b"", b"1", b"2", b""]
    await put(client, b"c")
    assert short(await events(stream, 1)) == [(b"c", 6, False)]


async def test_a_start_in_the_future(client: LocalClient, stream: Stream):
    """Nothing older than the start is reported."""
    await created(stream, watch(start_revision=4))
    for _ in range(3):
        await put(client)
    assert short(await events(stream, 1)) == [(b"a", 4, False)]


@pytest.mark.parametrize(
    ("kind", "seen"), [(pb.WatchCreateRequest.NOPUT, True), (pb.WatchCreateRequest.NODELETE, False)]
)
async def test_filters(client: LocalClient, stream: Stream, kind, seen: bool):
    """Puts or deletions are left out."""
    await created(stream, watch(filters=[kind]))
    await put(client)
    await delete(client)
    found = await events(stream, 1)
    assert [event.type == pb.Event.DELETE for event in found] == [seen]


async def test_ids(stream: Stream):
    """Ids begin at 0 and go around those that clients choose; one in use is refused."""
    assert [await created(stream, watch(watch_id=number)) for number in (0, 1, 0, 0)] == [0, 1, 2, 3]
    stream.send(watch(watch_id=1))
    answer = await stream.next()
    assert (answer.created, answer.canceled, answer.watch_id) == (True, True, -1)
    assert answer.cancel_reason == "mvcc: duplicate watch ID provided on the WatchStream"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [(watch(b"b", b"a"), "mvcc: watcher range is empty"), (watch(start_revision=-1), COMPACTED)],
)
async def test_watches_that_cannot_be(stream: Stream, request_: pb.WatchRequest, reason: str):
    """They are created and cancelled at once, under no id, and the stream goes on."""
    stream.send(request_)
    answer = await stream.next()
    assert (answer.created, answer.canceled, answer.watch_id) == (True, True, -1)
    assert answer.cancel_reason == reason
    assert await created(stream, watch()) == 0


async def test_a_compacted_start(client: LocalClient, stream: Stream):
    """A watch from before the compaction ends with the oldest revision that there is; it is in the way of
    notifications for all until it is cancelled, as in etcd.
    """
    for _ in range(4):
        await put(client)
    await client.call(pb.CompactionRequest(revision=4))
    assert await created(stream, watch(start_revision=3)) == 0
    answer = await stream.next()
    assert (answer.canceled, answer.compact_revision, answer.cancel_reason) == (True, 4, "")
    await created(stream, watch(start_revision=4))
    assert short(await events(stream, 2)) == [(b"a", 4, False), (b"a", 5, False)]
    stream.send(PROGRESS)
    stream.send(cancel(0))
    assert (await stream.next()).canceled
    stream.send(PROGRESS)
    assert (await stream.next()).watch_id == -1


async def test_cancellation(client: LocalClient, stream: Stream):
    """It is confirmed, and nothing comes after it; an unknown id is not answered."""
    await created(stream, watch())
    stream.send(cancel(7))
    stream.send(cancel(0))
    answer = await stream.next()
    assert (answer.watch_id, answer.canceled, answer.created) == (0, True, False)
    await put(client)
    await created(stream, watch())
    await put(client)
    assert short(await events(stream, 1)) == [(b"a", 3, False)]


async def test_progress_comes_after_all_events(client: LocalClient, stream: Stream):
    """A request for progress is answered once for all watches, after every event up to its revision."""
    await created(stream, watch())
    await created(stream, watch(b"b"))
    for _ in range(3):
        await put(client)
    stream.send(PROGRESS)
    revisions = [event.kv.mod_revision for event in await events(stream, 3)]
    answer = await stream.next()
    assert (answer.watch_id, answer.header.revision, revisions[-1]) == (-1, 4, 4)


async def test_no_progress_without_watches(client: LocalClient, stream: Stream):
    """A stream without watches, or with one that begins in the future, has no progress to report."""
    stream.send(PROGRESS)
    await created(stream, watch(start_revision=3))
    stream.send(PROGRESS)
    await put(client)
    await put(client)
    assert short(await events(stream, 1)) == [(b"a", 3, False)]
    stream.send(PROGRESS)
    assert (await stream.next()).header.revision == 3


class TestInVirtualTime:
    @pytest.mark.looptime
    async def test_notifications(self, client: LocalClient, stream: Stream):
        """A watch that wants it is notified when it had no event for the whole interval."""
        await created(stream, watch(progress_notify=True))
        await put(client)
        await events(stream, 1)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(120):
            answer = await stream.received.get()
        assert (answer.watch_id, answer.header.revision, list(answer.events)) == (0, 2, [])
        assert 60 <= loop.time() <= 67


async def test_fragments(client: LocalClient, stream: Stream, monkeypatch: pytest.MonkeyPatch):
    """A large answer comes in pieces if the client can join them, and all but the last say so."""
    monkeypatch.setattr(watch_streams, "FRAGMENT_BYTES", 2000)
    await created(stream, watch(fragment=True, start_revision=2))
    await created(stream, watch(start_revision=1000))
    await asyncio.gather(*(put(client, value=bytes(600)) for _ in range(7)))
    answers = [await stream.next()]
    while answers[-1].fragment:
        answers.append(await stream.next())
    assert [len(answer.events) for answer in answers] == [3, 3, 1]


async def test_a_reader_who_does_not_read(
    client: LocalClient, server: EtcdServer, monkeypatch: pytest.MonkeyPatch
):
    """A stream keeps no more than its bound, and its reader gets all events once it reads, in order."""
    monkeypatch.setattr(watch_streams, "QUEUE_BYTES", 5000)
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def sent():
        while True:
            yield await requests.get()

    watching = server.watches.stream()
    answers = watching.serve(sent())
    requests.put_nowait(watch().SerializeToString())
    assert pb.WatchResponse.FromString(await anext(answers)).created
    for number in range(200):
        await put(client, value=b"%d" % number + bytes(100))
    assert watching._queued < 5300
    revisions: list[int] = []
    while len(revisions) < 200:
        answer = pb.WatchResponse.FromString(await anext(answers))
        revisions += [event.kv.mod_revision for event in answer.events]
    assert revisions == list(range(2, 202))
    await put(client)
    answer = pb.WatchResponse.FromString(await anext(answers))
    assert [event.kv.mod_revision for event in answer.events] == [202]
    await answers.aclose()
    assert (server.watches.streams, server.watches.watchers) == (0, 0)


async def test_history_comes_in_pieces(
    client: LocalClient, server: EtcdServer, monkeypatch: pytest.MonkeyPatch
):
    """Of the past, too, a stream keeps no more than its bound, wherever it is read from."""
    monkeypatch.setattr(watch_streams, "QUEUE_BYTES", 1000)
    monkeypatch.setattr(watch_streams, "_PAST_BATCH", 30)
    for _ in range(100):
        await put(client, value=bytes(100))
    for revision in range(2, 80):
        server.keyspace._trim(revision)
    stream = client.watch()
    await created(stream, watch(start_revision=2))
    found: list[int] = []
    while len(found) < 100:
        answer = await stream.next()
        assert len(answer.events) <= 10
        found += [event.kv.mod_revision for event in answer.events]
    assert found == list(range(2, 102))
    await stream.close()


async def test_a_bound_within_a_transaction(
    client: LocalClient, server: EtcdServer, monkeypatch: pytest.MonkeyPatch
):
    """A reader who is slow gets each event of a transaction once, also if its first ones fill the bound."""
    monkeypatch.setattr(watch_streams, "QUEUE_BYTES", 1000)
    stream = client.watch()
    await created(stream, watch(b"a", b"c"))
    puts = [pb.RequestOp(request_put=pb.PutRequest(key=key, value=bytes(2000))) for key in (b"a", b"b")]
    for _ in range(3):
        await client.call(pb.TxnRequest(success=puts))
    assert short(await events(stream, 6)) == [
        (key, revision, False) for revision in (2, 3, 4) for key in (b"a", b"b")
    ]
    await stream.close()


async def test_prefixes_of_several_lengths(client: LocalClient, stream: Stream):
    """A watch of a prefix sees a key once, however long the prefixes of other watches are."""
    await created(stream, watch(b"a", b"b"))
    await created(stream, watch(b"ab", b"ac"))
    await created(stream, watch(b"b/cd", b"b/ce"))
    await put(client, b"a")
    await put(client, b"b/cd")
    answers = [await stream.next() for _ in range(2)]
    assert [(answer.watch_id, len(answer.events)) for answer in answers] == [(0, 1), (2, 1)]


async def test_ten_thousand_watches(client: LocalClient, server: EtcdServer, stream: Stream):
    """Of ten thousand watches of prefixes, a write reaches those that it concerns and looks at no other."""
    for number in range(10_000):
        stream.send(watch(b"/%05d/" % number, b"/%05d0" % number))
    for _ in range(10_000):
        assert (await stream.next()).created
    await put(client, b"/04711/a")
    answer = await stream.next()
    assert (answer.watch_id, len(answer.events)) == (4711, 1)
    assert len(list(server.watches.index.of(b"/04711/a"))) == 1
