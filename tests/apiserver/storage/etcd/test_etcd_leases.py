"""Leases of etcd's API, in virtual time."""

import asyncio

import pytest
from etcd_calls import LocalClient, RefusedError
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.etcd.memory_backing import MemoryBacking
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer

pytestmark = pytest.mark.looptime
NOT_FOUND = "NOT_FOUND: etcdserver: requested lease not found"


async def grant(client: LocalClient, ttl: int = 60, number: int = 7) -> pb.LeaseGrantResponse:
    return await client.call(pb.LeaseGrantRequest(TTL=ttl, ID=number))


async def put(client: LocalClient, key: bytes, lease: int = 7) -> None:
    await client.call(pb.PutRequest(key=key, lease=lease))


async def keys(client: LocalClient) -> list[bytes]:
    return [kv.key for kv in (await client.call(pb.RangeRequest(key=b"\0", range_end=b"\0"))).kvs]


async def held(client: LocalClient, number: int = 7) -> list[bytes]:
    return list((await client.call(pb.LeaseTimeToLiveRequest(ID=number, keys=True))).keys)


@pytest.mark.parametrize(
    ("ttl", "granted"), [(60, 60), (2, 2), (1, 2), (0, 2), (-5, 2), (9_000_000_000,) * 2]
)
async def test_bounds_of_time(client: LocalClient, ttl: int, granted: int):
    """Two seconds are the least, as with etcd's default election timeout."""
    answer = await grant(client, ttl)
    assert (7, granted) == (answer.ID, answer.TTL)


async def test_refusals(client: LocalClient):
    """An id in use, a time too long and unknown ids are refused in etcd's words."""
    await grant(client)
    for request, refusal in (
        (pb.LeaseGrantRequest(TTL=60, ID=7), "FAILED_PRECONDITION: etcdserver: lease already exists"),
        (pb.LeaseGrantRequest(TTL=9_000_000_001, ID=8), "OUT_OF_RANGE: etcdserver: too large lease TTL"),
        (pb.LeaseRevokeRequest(ID=8), NOT_FOUND),
    ):
        with pytest.raises(RefusedError) as caught:
            await client.call(request)
        assert str(caught.value) == refusal
    assert (await client.call(pb.LeaseTimeToLiveRequest(ID=8))).TTL == -1


async def test_an_id_of_the_servers_choice(client: LocalClient):
    """Ids that the server chooses are positive, and differ."""
    numbers = [(await grant(client, number=0)).ID for _ in range(3)]
    assert len(set(numbers)) == 3
    assert min(numbers) > 0
    assert {lease.ID for lease in (await client.call(pb.LeaseLeasesRequest())).leases} == set(numbers)


async def test_revocation_is_one_revision(client: LocalClient):
    """All keys of a lease go in one revision, sorted, and without keys there is no revision."""
    await grant(client)
    for key in (b"b", b"a"):
        await put(client, key)
    stream = client.watch()
    stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"\0", range_end=b"\0")))
    await stream.next()
    assert (await client.call(pb.LeaseRevokeRequest(ID=7))).header.revision == 4
    deletions = (await stream.next()).events
    assert [(event.kv.key, event.kv.mod_revision) for event in deletions] == [(b"a", 4), (b"b", 4)]
    await grant(client, number=8)
    assert (await client.call(pb.LeaseRevokeRequest(ID=8))).header.revision == 4
    await stream.close()


async def test_keys_change_their_lease(client: LocalClient):
    """A key belongs to the lease of its last put, and to none after its deletion."""
    await grant(client, number=7)
    await grant(client, number=8)
    await put(client, b"a", 7)
    assert (await held(client, 7), await held(client, 8)) == ([b"a"], [])
    await put(client, b"a", 8)
    assert (await held(client, 7), await held(client, 8)) == ([], [b"a"])
    await client.call(pb.PutRequest(key=b"a", value=b"2", ignore_lease=True))
    assert await held(client, 8) == [b"a"]
    await client.call(pb.DeleteRangeRequest(key=b"a"))
    assert await held(client, 8) == []


async def test_time_runs_out(client: LocalClient):
    """A lease ends within half a second after its time, with its keys; kept alive, it has all of it again."""
    await grant(client, ttl=10, number=7)
    await grant(client, ttl=10, number=8)
    await put(client, b"a", 7)
    await put(client, b"b", 8)
    await asyncio.sleep(8)
    assert (await client.call(pb.LeaseTimeToLiveRequest(ID=7))).TTL == 2
    stream = client.keep_alive()
    stream.send(pb.LeaseKeepAliveRequest(ID=7))
    assert (await stream.next()).TTL == 10
    await asyncio.sleep(3)
    assert await keys(client) == [b"a"]
    stream.send(pb.LeaseKeepAliveRequest(ID=8))
    assert (await stream.next()).TTL == 0
    await asyncio.sleep(8)
    assert await keys(client) == []
    assert not (await client.call(pb.LeaseLeasesRequest())).leases
    await stream.close()


async def test_a_new_server_gives_leases_their_time_again():
    """Leases and their keys are kept by the backing, but not how much of their time is over."""
    backing = MemoryBacking()
    first = await EtcdServer.open(backing, LoopClock(), SeededEntropy(1))
    client = LocalClient(first)
    await grant(client, ttl=10)
    await put(client, b"a")
    await asyncio.sleep(9)
    second = LocalClient(await EtcdServer.open(backing, LoopClock(), SeededEntropy(1)))
    await first.close()
    await asyncio.sleep(9)
    assert (await keys(second), await held(second)) == ([b"a"], [b"a"])
    await asyncio.sleep(2)
    assert await keys(second) == []
    await second._server.close()
