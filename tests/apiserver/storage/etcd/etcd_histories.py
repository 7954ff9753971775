"""Random histories of calls, and their answers without what may differ between two servers of etcd's API."""

import random
from collections.abc import Iterator, Sequence
from typing import Any

from etcd_calls import Client, RefusedError

from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb

KEYS = [b"a", b"aa", b"ab", b"b", b"b\x00", b"c/1", b"c/2", b"c\xff", b"d"]
ENDS = [b"", b"", b"", b"\0", b"b", b"c", b"c0", b"d\0", b"a", *KEYS]
VALUES = [b"", b"x", b"y", b"\xff\x00", b"longer" * 20]
LEASES = [7, 8, -9, 1 << 40]


class History:
    """Draws requests that refer to what the history has made: keys, leases and revisions.

    `prefix` is put before all keys, and leases have the seed in them, so that many histories can be run on
    one server; `base` is the revision of that server before the history.
    """

    def __init__(self, seed: int, base: int, prefix: bytes) -> None:
        self.draw = random.Random(seed)
        self.base = base
        self.prefix = prefix
        self.writes = 0
        self.leases = [(seed << 8 | number) + 1 for number in range(4)]

    def requests(self, length: int) -> Iterator[Any]:
        kinds = (
            [self.put] * 8 + [self.range] * 8 + [self.delete] * 3 + [self.txn] * 8 + [self.compact]
            + [self.grant] * 2 + [self.revoke, self.time_to_live, self.keep_alive, pb.LeaseLeasesRequest]
        )  # fmt: skip
        for _ in range(length):
            yield self.draw.choice(kinds)()

    def one_in(self, number: int) -> bool:
        return self.draw.randrange(number) == 0

    def key(self) -> bytes:
        if self.one_in(60):
            return b""
        return self.prefix + self.draw.choice(KEYS)

    def end(self) -> bytes:
        end = self.draw.choice(ENDS)
        if end == b"\0":  # all that the history may see
            return self.prefix + b"\xff\xff"
        return self.prefix + end if end else end

    def lease(self, often: int = 3) -> int:
        return self.draw.choice(self.leases) if self.one_in(often) else 0

    def revision(self) -> int:
        if not self.one_in(4):
            return 0
        return self.base + self.draw.randrange(-1, self.writes + 4)

    def put(self) -> pb.PutRequest:
        request = pb.PutRequest(key=self.key(), lease=self.lease(), prev_kv=self.one_in(3))
        request.ignore_value = self.one_in(8)
        request.ignore_lease = self.one_in(8)
        if not request.ignore_value or self.one_in(10):
            request.value = self.draw.choice(VALUES)
        if request.ignore_lease and not self.one_in(10):
            request.lease = 0
        self.writes += 1
        return request

    def range(self) -> pb.RangeRequest:
        request = pb.RangeRequest(
            key=self.key(),
            range_end=self.end(),
            limit=self.draw.choice([0, 0, 1, 2, 3, -1]),
            revision=self.revision(),
            sort_order=self.draw.choice([0, 0, 1, 2]),
            sort_target=self.draw.choice([0, 0, 1, 2, 3, 4]),
            serializable=self.one_in(4),
            keys_only=self.one_in(4),
            count_only=self.one_in(6),
        )
        for bound in ("min_mod_revision", "max_mod_revision", "min_create_revision", "max_create_revision"):
            if self.one_in(6):
                setattr(request, bound, self.base + self.draw.randrange(self.writes + 2))
        return request

    def delete(self) -> pb.DeleteRangeRequest:
        self.writes += 1
        return pb.DeleteRangeRequest(key=self.key(), range_end=self.end(), prev_kv=self.one_in(2))

    def compare(self) -> pb.Compare:
        compare = pb.Compare(
            key=self.key(),
            range_end=self.end() if self.one_in(4) else b"",
            result=self.draw.randrange(4),  # type: ignore[arg-type]
            target=self.draw.randrange(5),  # type: ignore[arg-type]
        )
        number = self.base + self.draw.randrange(self.writes + 2)
        field, value = [
            ("version", self.draw.randrange(4)),
            ("create_revision", self.draw.choice([0, number])),
            ("mod_revision", self.draw.choice([0, number])),
            ("value", self.draw.choice(VALUES)),
            ("lease", self.lease(2)),
        ][compare.target if not self.one_in(15) else self.draw.randrange(5)]
        if not self.one_in(15):
            setattr(compare, field, value)
        return compare

    def txn(self, depth: int = 0) -> pb.TxnRequest:
        draw = self.draw
        request = pb.TxnRequest(
            compare=[self.compare() for _ in range(draw.choice([0, 1, 1, 2]))],
            success=[self.operation(depth) for _ in range(draw.choice([0, 1, 1, 2, 3]))],
            failure=[self.operation(depth) for _ in range(draw.choice([0, 1, 1, 2]))],
        )
        if not depth and self.one_in(60):
            request.success.extend([pb.RequestOp(request_range=self.range())] * 127)
        return request

    def operation(self, depth: int) -> pb.RequestOp:
        kind = self.draw.randrange(20)
        if kind < 8:
            return pb.RequestOp(request_put=self.put())
        if kind < 13:
            return pb.RequestOp(request_range=self.range())
        if kind < 16:
            return pb.RequestOp(request_delete_range=self.delete())
        if kind < 19 and depth < 2:
            return pb.RequestOp(request_txn=self.txn(depth + 1))
        return pb.RequestOp(request_range=self.range()) if kind < 19 or not self.one_in(3) else pb.RequestOp()

    def compact(self) -> pb.CompactionRequest:
        revision = self.base + self.draw.randrange(-2, self.writes + 3)
        return pb.CompactionRequest(revision=revision, physical=self.one_in(3))

    def grant(self) -> pb.LeaseGrantRequest:
        ttl = self.draw.choice([60, 600, 9_000_000_000, 9_000_000_001])  # none that ends in between
        return pb.LeaseGrantRequest(ID=self.draw.choice(self.leases), TTL=ttl)

    def revoke(self) -> pb.LeaseRevokeRequest:
        self.writes += 1
        return pb.LeaseRevokeRequest(ID=self.draw.choice(self.leases))

    def time_to_live(self) -> pb.LeaseTimeToLiveRequest:
        return pb.LeaseTimeToLiveRequest(ID=self.draw.choice(self.leases), keys=self.one_in(2))

    def keep_alive(self) -> pb.LeaseKeepAliveRequest:
        return pb.LeaseKeepAliveRequest(ID=self.draw.choice(self.leases))

    def watches(self) -> Sequence[pb.WatchRequest]:
        """Requests for one stream."""
        return [pb.WatchRequest(create_request=self.watch()) for _ in range(self.draw.randrange(1, 5))]

    def watch(self) -> pb.WatchCreateRequest:
        return pb.WatchCreateRequest(
            key=self.key(),
            range_end=self.end(),
            start_revision=self.draw.choice([0, 0, self.base + self.draw.randrange(self.writes + 3), -1]),
            filters=[kind for kind in (0, 1) if self.one_in(6)],  # type: ignore[misc]
            prev_kv=self.one_in(2),
            watch_id=self.draw.choice([0, 0, 0, 1, 2, 77]),
            fragment=self.one_in(3),
        )


def neutral(answer: Any, shift: int = 0) -> Any:
    """The answer without ids of cluster, member and term, and without remaining times."""
    if answer.DESCRIPTOR.fields_by_name.get("header") and answer.HasField("header"):
        answer.header.ClearField("cluster_id")
        answer.header.ClearField("member_id")
        answer.header.ClearField("raft_term")
    if isinstance(answer, pb.LeaseTimeToLiveResponse):
        answer.TTL = min(answer.TTL, 0)
        answer.keys.sort()
    if isinstance(answer, pb.LeaseLeasesResponse):
        answer.leases.sort(key=lambda lease: lease.ID)
    return answer


async def kept_alive(client: Client, request: pb.LeaseKeepAliveRequest) -> Any:
    stream = client.keep_alive()
    stream.send(request)
    answer = await stream.next()
    await stream.close()
    return answer


async def outcome(client: Client, request: Any) -> str:
    try:
        if isinstance(request, pb.LeaseKeepAliveRequest):
            return str(neutral(await kept_alive(client, request)))
        return str(neutral(await client.call(request)))
    except RefusedError as refused:
        return str(refused)
