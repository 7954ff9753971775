"""Requests of etcd's API that nobody should make: they are refused as by etcd, or bounded.

What HTTP/2 itself must not be is in `test_etcd_http2.py`, single refusals in `test_etcd_kv.py`.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator

import pytest
from etcd_calls import METHODS, GRPCClient, LocalClient, RefusedError
from etcd_histories import History
from randomness import SEED, examples
from until import until

from kubeskew.apimachinery.clock import SeededEntropy, SystemClock
from kubeskew.apiserver.storage.etcd import watch_streams
from kubeskew.apiserver.storage.etcd.backing import Backing
from kubeskew.apiserver.storage.etcd.grpc_server import GRPCServer
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer

MALFORMED = "INTERNAL: grpc: error unmarshalling request: unexpected EOF"
TOO_MANY = "INVALID_ARGUMENT: etcdserver: too many operations in txn request"
TOO_LARGE = "INVALID_ARGUMENT: etcdserver: request is too large"


@pytest.fixture
async def client(memory_server: EtcdServer) -> AsyncIterator[GRPCClient]:
    serving = GRPCServer(memory_server, [])
    connected = GRPCClient(f"127.0.0.1:{await serving.listen('127.0.0.1', 0, None)}")
    yield connected
    await connected.close()
    await serving.stop()
    await serving.stop()


def damaged(data: bytes, draw: random.Random) -> bytes:
    found = bytearray(data)
    for _ in range(draw.randrange(1, 4)):
        place = draw.randrange(len(found) + 1)
        match draw.randrange(4):
            case 0:
                found[place : place + 1] = draw.randbytes(1)
            case 1:
                del found[place:]
            case 2:
                found[place:place] = draw.randbytes(1)
            case _:
                found += draw.randbytes(3)
    return bytes(found)


@pytest.mark.random
async def test_damaged_requests(client: GRPCClient, caplog: pytest.LogCaptureFixture):
    """Whatever bytes a method is given, it answers, or refuses them for a reason that etcd has."""
    draw = random.Random(SEED)
    refused: list[str] = []
    with caplog.at_level(logging.ERROR):
        for request in History(SEED, 1, b"/").requests(examples(1000)):
            if type(request) not in METHODS:
                continue
            method, _, _ = METHODS[type(request)]
            try:
                await client.raw(method, damaged(request.SerializeToString(), draw))
            except RefusedError as error:
                refused.append(str(error))
    assert MALFORMED in refused
    assert [text for text in refused if text != MALFORMED and "etcdserver: " not in text] == []
    assert caplog.records == []


@pytest.mark.parametrize(
    ("kind", "data", "refused"),
    [
        (pb.PutRequest, b"\x0a\x01a\x10\x01", True),  # the value is a number
        (pb.PutRequest, b"\x08\x01\x0a\x01a", True),  # the key comes as a number, and again
        (pb.RangeRequest, b"\x0a\x01a\x1a\x00", True),  # the limit is a text
        (pb.TxnRequest, b"\x12\x06\x0a\x04\x0a\x01a\x1a", True),  # it breaks off
        (pb.TxnRequest, b"\x12\x07\x0a\x05\x0a\x01a\x1a\x00", True),  # in a range of it, the limit is a text
        (pb.LeaseLeasesRequest, b"UQ", True),
        (pb.PutRequest, b"\x0a\x01a\x12\x00", False),  # an empty value is sent
        (pb.PutRequest, b"\x0a\x01a\x78\x01", False),  # there is no field 15
        (pb.TxnRequest, b"\x12\x07\x0a\x05\x0a\x01a\x18\x00", False),  # no limit is sent
    ],
)
async def test_fields_of_another_type(client: GRPCClient, kind: type, data: bytes, refused: bool):
    """A field of another type than its own is refused, as by Go's parser; an unknown one is skipped."""
    method = METHODS[kind][0]
    if refused:
        with pytest.raises(RefusedError) as caught:
            await client.raw(method, data)
        assert str(caught.value) == MALFORMED
        assert (await client.call(pb.RangeRequest(key=b"a"))).header.revision == 1
    else:
        await client.raw(method, data)


async def test_a_watch_with_a_field_of_another_type(client: GRPCClient):
    """A stream of watches ends with it."""
    call = client.channel.stream_stream("/etcdserverpb.Watch/Watch")(iter([b"\x0a\x02\x08\x01"]))
    with pytest.raises(Exception, match="error unmarshalling request"):
        await call.read()


@pytest.mark.parametrize("backing", ["memory", "log in memory", "log in a file"], indirect=True)
async def test_a_key_of_a_megabyte(backing: Backing):
    """It is kept, found, watched and deleted like any other, and so is its value."""
    server = await EtcdServer.open(backing, SystemClock(), SeededEntropy(1))
    client = LocalClient(server)
    stream = client.watch()
    stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"k", range_end=b"l")))
    assert (await stream.next()).created
    keys = [b"k" * (1 << 20), b"k\xff\x00" * (1 << 18), b"/registry/pods/default/" + b"p" * (1 << 20)]
    for key in keys:
        await client.call(pb.PutRequest(key=key, value=bytes(1 << 18)))
        found = await client.call(pb.RangeRequest(key=key))
        assert [(kv.key, len(kv.value)) for kv in found.kvs] == [(key, 1 << 18)]
    assert (await client.call(pb.RangeRequest(key=b"k", range_end=b"l", keys_only=True))).count == 2
    assert (await client.call(pb.DeleteRangeRequest(key=b"\0", range_end=b"\0"))).deleted == 3
    events: list[pb.Event] = []
    while len(events) < 4:
        events += (await stream.next()).events
    assert [(event.kv.key, event.type) for event in events] == [
        (keys[0], 0), (keys[1], 0), (keys[0], 1), (keys[1], 1)
    ]  # fmt: skip
    await stream.close()
    await server.close()


@pytest.mark.parametrize("nested", [False, True])
async def test_a_transaction_of_ten_thousand_operations(client: GRPCClient, nested: bool):
    """It is refused before anything is done, at whatever level the operations are."""
    puts = [pb.RequestOp(request_put=pb.PutRequest(key=b"%d" % number)) for number in range(10_000)]
    request = pb.TxnRequest(success=puts)
    if nested:
        request = pb.TxnRequest(success=[pb.RequestOp(request_txn=request)])
    with pytest.raises(RefusedError) as caught:
        await client.call(request)
    assert str(caught.value) == TOO_MANY
    large = [
        pb.RequestOp(request_put=pb.PutRequest(key=b"%d" % number, value=bytes(1 << 17)))
        for number in range(12)
    ]
    with pytest.raises(RefusedError) as caught:
        await client.call(pb.TxnRequest(success=large))
    assert str(caught.value) == TOO_LARGE
    assert (await client.call(pb.RangeRequest(key=b"a"))).header.revision == 1


async def test_ten_thousand_watches_that_nobody_reads(
    memory_server: EtcdServer, monkeypatch: pytest.MonkeyPatch
):
    """Ten thousand watches of one key, on a stream that is not read, keep what a stream may keep; others go
    on, and the reader has every event of every watch once it reads.
    """
    monkeypatch.setattr(watch_streams, "QUEUE_BYTES", 1_000_000)
    requests: asyncio.Queue[bytes] = asyncio.Queue()

    async def sent() -> AsyncIterator[bytes]:
        while True:
            yield await requests.get()

    for number in range(1, 10_001):
        create = pb.WatchCreateRequest(key=b"a", watch_id=number)
        requests.put_nowait(pb.WatchRequest(create_request=create).SerializeToString())
    stream = memory_server.watches.stream()
    answers = stream.serve(sent())
    assert pb.WatchResponse.FromString(await anext(answers)).created
    await until(lambda: memory_server.watches.watchers == 10_000)
    client = LocalClient(memory_server)
    for _ in range(3):
        await client.call(pb.PutRequest(key=b"a", value=bytes(1000)))
        assert stream._queued < 1_010_000
    seen: dict[int, list[int]] = {}
    left = 30_000
    while left:
        answer = pb.WatchResponse.FromString(await anext(answers))
        assert stream._queued < 1_010_000
        left -= len(answer.events)
        seen.setdefault(answer.watch_id, []).extend(event.kv.mod_revision for event in answer.events)
    assert list(seen.values()) == [[2, 3, 4]] * 10_000
    await answers.aclose()
