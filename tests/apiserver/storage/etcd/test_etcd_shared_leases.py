"""Leases of two servers of etcd's API on one log, in virtual time."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from etcd_calls import LocalClient, RefusedError
from loop_clock import LoopClock

from kubeskew.apimachinery.clock import SeededEntropy
from kubeskew.apiserver.storage.etcd.log_backing import LogBacking
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.apiserver.storage.memory_log import MemoryLog, MemoryRecords

pytestmark = pytest.mark.looptime
NOT_FOUND = "NOT_FOUND: etcdserver: requested lease not found"


class Site:
    """One server, as in a process of its own."""

    def __init__(self, server: EtcdServer) -> None:
        self.server = server
        self.client = LocalClient(server)

    async def grant(self, ttl: int = 10, number: int = 7) -> None:
        await self.client.call(pb.LeaseGrantRequest(TTL=ttl, ID=number))

    async def put(self, key: bytes, lease: int = 7) -> None:
        await self.client.call(pb.PutRequest(key=key, lease=lease))

    async def revoke(self, number: int = 7) -> None:
        await self.client.call(pb.LeaseRevokeRequest(ID=number))

    async def keep_alive(self, number: int = 7) -> int:
        stream = self.client.keep_alive()
        stream.send(pb.LeaseKeepAliveRequest(ID=number))
        ttl = int((await stream.next()).TTL)
        await stream.close()
        return ttl

    async def held(self, number: int = 7) -> tuple[int, list[bytes]]:
        answer = await self.client.call(pb.LeaseTimeToLiveRequest(ID=number, keys=True))
        return answer.TTL, list(answer.keys)

    async def leases(self) -> list[int]:
        return [lease.ID for lease in (await self.client.call(pb.LeaseLeasesRequest())).leases]

    async def keys(self) -> list[bytes]:
        found = await self.client.call(pb.RangeRequest(key=b"\0", range_end=b"\0"))
        return [kv.key for kv in found.kvs]


@pytest.fixture
def records() -> MemoryRecords:
    return MemoryRecords()


async def opened(records: MemoryRecords, seed: int = 1) -> Site:
    backing = await LogBacking.open(MemoryLog(records, shared=True), LoopClock())
    return Site(await EtcdServer.open(backing, LoopClock(), SeededEntropy(seed)))


@pytest.fixture
async def sites(records: MemoryRecords) -> AsyncIterator[tuple[Site, Site]]:
    one, other = await opened(records, 1), await opened(records, 2)
    yield one, other
    await one.server.close()
    await other.server.close()


async def test_a_lease_is_seen_at_both(sites: tuple[Site, Site]):
    """Its time, its keys and the list of leases are the same at the other server, which may put keys, too."""
    one, other = sites
    await one.grant()
    await asyncio.sleep(4)
    await other.put(b"b")
    await one.put(b"a")
    assert await one.held() == await other.held() == (6, [b"a", b"b"])
    assert await one.leases() == await other.leases() == [7]
    with pytest.raises(RefusedError, match="lease already exists"):
        await other.grant()


async def test_either_keeps_it_alive(sites: tuple[Site, Site], records: MemoryRecords):
    """It does not end while one of both is asked to renew it; then it ends once, in one revision."""
    one, other = sites
    await one.grant()
    await one.put(b"a")
    for site in (other, other, one, other, one, one):
        await asyncio.sleep(8)
        assert await site.keep_alive() == 10
    assert await one.keys() == await other.keys() == [b"a"]
    await asyncio.sleep(9)
    assert await one.keys() == [b"a"]
    assert records.newest == 2
    await asyncio.sleep(2)
    assert await one.keys() == await other.keys() == []
    assert await one.leases() == await other.leases() == []
    assert records.newest == 3


async def test_a_renewal_takes_precedence_over_an_end(sites: tuple[Site, Site]):
    """A server whose time for the lease is over looks whether another has renewed it, and leaves it then."""
    one, other = sites
    await one.grant()
    await other.put(b"a")
    await asyncio.sleep(9.9)
    assert await one.keep_alive() == 10
    await asyncio.sleep(5)
    assert await other.held() == (4, [b"a"])
    assert await other.keep_alive() == 10


async def test_either_revokes_it(sites: tuple[Site, Site]):
    """All its keys go, whoever has put them; then the lease is unknown to both."""
    one, other = sites
    await one.grant()
    await one.put(b"a")
    await other.put(b"b")
    await one.put(b"c")
    await other.revoke()
    assert await one.keys() == await other.keys() == []
    for site in (one, other):
        with pytest.raises(RefusedError, match=NOT_FOUND):
            await site.put(b"d")
        with pytest.raises(RefusedError, match=NOT_FOUND):
            await site.revoke()
        assert (await site.keep_alive(), await site.held()) == (0, (-1, []))
    await one.grant(30)
    assert await other.held() == (30, [])


async def test_a_key_does_not_outlive_its_lease(sites: tuple[Site, Site]):
    """Puts and a revocation at the same time leave no key without its lease."""
    one, other = sites
    for number in range(1, 30):
        await one.grant(number=number)
        puts = [one.put(b"k%d" % at, number) for at in range(5)]
        await asyncio.gather(*puts[:2])
        await asyncio.gather(*puts[2:], other.revoke(number), return_exceptions=True)
        assert await one.keys() == await other.keys() == []


async def test_a_server_that_crashes_leaves_its_leases_to_the_other(
    sites: tuple[Site, Site], records: MemoryRecords
):
    """The other one ends them when their time is over."""
    _, other = sites
    third = await opened(records, 3)
    await third.grant(number=9)
    await third.put(b"a", 9)
    assert third.server._expiring is not None
    third.server._expiring.cancel()
    await asyncio.sleep(9)
    assert await other.keys() == [b"a"]
    await asyncio.sleep(2)
    assert await other.keys() == []
    await third.server.backing.close()


async def test_a_server_that_starts_gives_leases_their_time_again(
    sites: tuple[Site, Site], records: MemoryRecords
):
    """The others follow it, as etcd's members follow a new leader."""
    one, _ = sites
    await one.grant()
    await one.put(b"a")
    await asyncio.sleep(9)
    third = await opened(records, 3)
    assert (await third.held())[0] == (await one.held())[0] == 10
    await asyncio.sleep(9)
    assert await one.keys() == [b"a"]
    await third.server.close()


async def test_a_log_that_cannot_be_read_ends_no_lease(
    sites: tuple[Site, Site], monkeypatch: pytest.MonkeyPatch
):
    """It ends once the log can be read again."""
    one, _ = sites
    await one.grant()
    await one.put(b"a")

    async def refused(*_: object) -> None:
        raise StorageError("away")

    with monkeypatch.context() as patched:
        for name in ("leases", "transact"):
            patched.setattr(MemoryLog, name, refused)
        await asyncio.sleep(12)
    assert await one.keys() == [b"a"]
    await asyncio.sleep(2)
    assert await one.keys() == []
