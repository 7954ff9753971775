"""Reads, writes, transactions and compaction of etcd's API, call by call."""

import asyncio

import pytest
from etcd_calls import LocalClient, RefusedError

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.request_checks import MAX_MESSAGE_BYTES, MAX_REQUEST_BYTES
from kubeskew.apiserver.storage.etcd.server import EtcdServer

EMPTY = "INVALID_ARGUMENT: etcdserver: key is not provided"
MISSING = "INVALID_ARGUMENT: etcdserver: key not found"
DUPLICATE = "INVALID_ARGUMENT: etcdserver: duplicate key given in txn request"
TOO_MANY = "INVALID_ARGUMENT: etcdserver: too many operations in txn request"
SORT = "INVALID_ARGUMENT: etcdserver: invalid sort option"
TOO_LARGE = "INVALID_ARGUMENT: etcdserver: request is too large"
FUTURE = "OUT_OF_RANGE: etcdserver: mvcc: required revision is a future revision"
COMPACTED = "OUT_OF_RANGE: etcdserver: mvcc: required revision has been compacted"


def put(key: bytes = b"a", value: bytes = b"1", **options) -> pb.PutRequest:
    return pb.PutRequest(key=key, value=value, **options)


def get(key: bytes = b"a", end: bytes = b"", **options) -> pb.RangeRequest:
    return pb.RangeRequest(key=key, range_end=end, **options)


def delete(key: bytes = b"a", end: bytes = b"", **options) -> pb.DeleteRangeRequest:
    return pb.DeleteRangeRequest(key=key, range_end=end, **options)


def op(request) -> pb.RequestOp:
    name = {
        pb.PutRequest: "request_put", pb.RangeRequest: "request_range",
        pb.DeleteRangeRequest: "request_delete_range", pb.TxnRequest: "request_txn",
    }[type(request)]  # fmt: skip
    return pb.RequestOp(**{name: request})


def txn(*success, compare=(), failure=()) -> pb.TxnRequest:
    return pb.TxnRequest(compare=compare, success=map(op, success), failure=map(op, failure))


def at(key: bytes, revision: int) -> pb.Compare:
    return pb.Compare(key=key, target=pb.Compare.MOD, mod_revision=revision)


async def keys(client: LocalClient, **options) -> list[bytes]:
    return [kv.key for kv in (await client.call(get(b"\0", b"\0", **options))).kvs]


@pytest.mark.parametrize(
    ("request_", "refusal"),
    [
        (get(b""), EMPTY),
        (put(b""), EMPTY),
        (delete(b""), EMPTY),
        (txn(put(b"")), EMPTY),
        (txn(compare=[at(b"", 0)]), EMPTY),
        (get(sort_order=7), SORT),
        (get(sort_target=7), SORT),
        (txn(txn(get(sort_order=7))), SORT),
        (pb.TxnRequest(success=[pb.RequestOp()]), MISSING),
        (put(ignore_value=True), "INVALID_ARGUMENT: etcdserver: value is provided"),
        (put(lease=1, ignore_lease=True), "INVALID_ARGUMENT: etcdserver: lease is provided"),
        (put(value=b"", ignore_value=True), MISSING),
        (put(ignore_lease=True), MISSING),
        (put(lease=1), "NOT_FOUND: etcdserver: requested lease not found"),
        (txn(put(lease=1)), "NOT_FOUND: etcdserver: requested lease not found"),
        (get(revision=2), FUTURE),
        (txn(get(revision=2)), FUTURE),
        (pb.CompactionRequest(revision=2), FUTURE),
        (txn(put(), put()), DUPLICATE),
        (txn(delete(), put()), DUPLICATE),
        (txn(put(b"b"), delete(b"a", b"c")), DUPLICATE),
        (txn(put(b"b"), delete(b"a", b"\0")), DUPLICATE),
        (txn(txn(put()), put()), DUPLICATE),
        (txn(txn(put()), txn(put())), DUPLICATE),
        (txn(txn(delete()), txn(put())), DUPLICATE),
        (txn(failure=[put(), put()]), DUPLICATE),
        (txn(*[get()] * 129), TOO_MANY),
        (txn(compare=[at(b"a", 0)] * 129), TOO_MANY),
        (txn(*[get()] * 127, txn(get())), TOO_MANY),
        (put(value=bytes(MAX_REQUEST_BYTES)), TOO_LARGE),
        (put(b"k" * MAX_REQUEST_BYTES), TOO_LARGE),
        (txn(put(value=bytes(MAX_REQUEST_BYTES))), TOO_LARGE),
    ],
)
async def test_refusals(client: LocalClient, request_, refusal: str):
    """A request that etcd refuses is refused with its code and text, and changes nothing."""
    with pytest.raises(RefusedError) as caught:
        await client.call(request_)
    assert str(caught.value) == refusal
    assert (await client.call(get())).header.revision == 1


@pytest.mark.parametrize(
    "request_",
    [
        txn(*[get()] * 128),
        txn(put(), compare=[at(b"b", 0)], failure=[put()]),
        txn(txn(put(), failure=[put()])),
        txn(delete(), delete()),
        txn(delete(b"a", b"c"), put(b"c")),
        put(value=bytes(MAX_REQUEST_BYTES - 100)),
    ],
)
async def test_requests_at_the_bounds(client: LocalClient, request_):
    """A request that etcd just takes is taken."""
    await client.call(request_)


async def test_a_message_that_is_no_request(server: EtcdServer):
    """Bytes that are no message, and those above gRPC's limit, are refused as gRPC's server in Go does."""
    with pytest.raises(EtcdError) as caught:
        await server.put(b"\x0a\xff")
    assert (caught.value.code, caught.value.text) == errors.MALFORMED
    with pytest.raises(EtcdError) as caught:
        await server.put(bytes(MAX_MESSAGE_BYTES + 1))
    assert caught.value.text == "grpc: received message larger than max (2097153 vs. 2097152)"


async def test_a_key_through_its_life(client: LocalClient):
    """Creation and modification revisions, versions and previous values follow etcd's rules."""
    assert not (await client.call(put(prev_kv=True))).HasField("prev_kv")
    answer = await client.call(put(value=b"2", prev_kv=True))
    assert answer.prev_kv == pb.KeyValue(key=b"a", create_revision=2, mod_revision=2, version=1, value=b"1")
    kv = (await client.call(get())).kvs[0]
    assert (kv.create_revision, kv.mod_revision, kv.version) == (2, 3, 2)
    gone = await client.call(delete(prev_kv=True))
    assert (gone.deleted, gone.prev_kvs[0].value, gone.header.revision) == (1, b"2", 4)
    assert (await client.call(delete())).header.revision == 4
    await client.call(put())
    kv = (await client.call(get())).kvs[0]
    assert (kv.create_revision, kv.version) == (5, 1)


async def test_reads_of_the_past(client: LocalClient):
    """A range at a revision shows what existed then, until it is compacted."""
    for key in (b"b", b"a", b"c"):
        await client.call(put(key))
    await client.call(delete(b"b"))
    assert [await keys(client, revision=revision) for revision in (2, 3, 4, 5)] == [
        [b"b"], [b"a", b"b"], [b"a", b"b", b"c"], [b"a", b"c"]
    ]  # fmt: skip
    await client.call(pb.CompactionRequest(revision=4, physical=True))
    assert await keys(client, revision=4) == [b"a", b"b", b"c"]
    for request in (get(revision=3), txn(get(revision=3)), pb.CompactionRequest(revision=4)):
        with pytest.raises(RefusedError, match=COMPACTED):
            await client.call(request)


async def test_the_past_before_the_window(client: LocalClient, server: EtcdServer):
    """A revision whose states are not in memory is read from the backing, in transactions as well."""
    await client.call(put(b"a"))
    await client.call(put(b"b"))
    server.keyspace._trim(2)
    server.keyspace._trim(3)
    assert await keys(client, revision=2) == [b"a"]
    answer = await client.call(txn(put(b"c"), get(b"\0", b"\0", revision=2), get(b"\0", b"\0")))
    shown = [[kv.key for kv in response.response_range.kvs] for response in answer.responses[1:]]
    assert shown == [[b"a"], [b"a", b"b", b"c"]]


async def test_pages(client: LocalClient):
    """`limit` cuts, `more` says so, and `count` is of all."""
    for key in (b"a", b"b", b"c"):
        await client.call(put(key))
    page = await client.call(get(b"a", b"\0", limit=2))
    assert ([kv.key for kv in page.kvs], page.more, page.count) == ([b"a", b"b"], True, 3)
    page = await client.call(get(b"b\0", b"\0", limit=2, revision=4))
    assert ([kv.key for kv in page.kvs], page.more, page.count) == ([b"c"], False, 1)
    page = await client.call(get(b"a", b"\0", count_only=True))
    assert (list(page.kvs), page.count) == ([], 3)
    page = await client.call(get(b"a", b"\0", limit=1, sort_order=pb.RangeRequest.DESCEND, keys_only=True))
    assert [(kv.key, kv.value) for kv in page.kvs] == [(b"c", b"")]


@pytest.mark.parametrize("revision", [0, 5, 4])
async def test_a_target_without_an_order(client: LocalClient, revision: int):
    """A page that names a target but no order has the first keys and one more, sorted by it, and then cut."""
    for key in (b"d", b"c", b"b", b"a"):
        await client.call(put(key))
    page = await client.call(get(b"a", b"\0", limit=1, sort_target=pb.RangeRequest.MOD, revision=revision))
    assert [kv.key for kv in page.kvs] == [b"b" if revision != 4 else b"c"]


async def test_a_transaction_is_one_revision(client: LocalClient):
    """All of a transaction's changes have one revision, and its reads see those before them."""
    await client.call(put(b"b"))
    answer = await client.call(
        txn(put(b"a"), get(b"a", b"\0"), delete(b"b"), get(b"a", b"\0"), compare=[at(b"b", 2), at(b"a", 0)])
    )
    assert (answer.succeeded, answer.header.revision) == (True, 3)
    ranges = [response.response_range for response in answer.responses[1::2]]
    assert [[kv.key for kv in found.kvs] for found in ranges] == [[b"a", b"b"], [b"a"]]
    assert [kv.mod_revision for kv in (await client.call(get(b"a", b"\0"))).kvs] == [3]


async def test_compares_see_the_state_before(client: LocalClient):
    """Compares of nested transactions are evaluated before anything is written."""
    inner = txn(put(b"b"), compare=[at(b"a", 0)], failure=[put(b"c")])
    answer = await client.call(txn(put(b"a"), inner))
    assert answer.responses[1].response_txn.succeeded
    assert await keys(client) == [b"a", b"b"]


async def test_of_concurrent_creates_one_wins(client: LocalClient):
    """A create as kube-apiserver makes it succeeds once, and the others get what exists."""
    request = txn(put(), compare=[at(b"a", 0)], failure=[get()])
    answers = await asyncio.gather(*(client.call(request) for _ in range(20)))
    assert sum(answer.succeeded for answer in answers) == 1
    assert all(
        answer.responses[0].response_range.kvs[0].mod_revision == 2
        for answer in answers
        if not answer.succeeded
    )


async def test_a_put_and_its_deletion_in_one_transaction(client: LocalClient):
    """A key that children of a transaction put and delete is gone, with the transaction's revision."""
    await client.call(put(b"a"))
    await client.call(txn(txn(put(b"a", b"2")), txn(delete(b"a", b"b"))))
    found = await client.call(get(b"a"))
    assert (found.count, found.header.revision) == (0, 3)
