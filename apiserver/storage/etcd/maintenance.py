"""Status, hashes, snapshots and members, as far as they mean something without raft and bbolt."""

import hashlib
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.backing import ALL_KEYS
from kubeskew.apiserver.storage.etcd.errors import EtcdError
from kubeskew.apiserver.storage.etcd.keyspace import state_of
from kubeskew.apiserver.storage.etcd.messages.rpc_pb2 import (
    AlarmMember,
    AlarmRequest,
    AlarmResponse,
    AlarmType,
    AuthStatusResponse,
    DefragmentResponse,
    DowngradeInfo,
    HashKVRequest,
    HashKVResponse,
    HashResponse,
    Member,
    MemberListResponse,
    SnapshotResponse,
    StatusResponse,
)
from kubeskew.apiserver.storage.etcd.request_checks import parsed
from kubeskew.apiserver.storage.etcd.server import MEMBER_ID, EtcdServer
from kubeskew.apiserver.storage.etcd.wire import State
from kubeskew.apiserver.storage.interfaces import CompactedError, FutureRevisionError

# kube-apiserver asks for progress of watches from 3.5.13 on
# (k8s.io/apiserver/pkg/storage/feature/feature_support_checker.go, 1.36).
VERSION = "3.6.8"
CLUSTER_VERSION = "3.6.0"
QUOTA_BYTES = 2 << 30
SNAPSHOT_MAGIC = b"kubeskew etcd snapshot 1\n"  # no bbolt file, so that etcd's tools do not restore it
_BLOB_BYTES = 32 << 10
_PAGE_BYTES = 512  # of bbolt: etcdctl takes a last odd piece for a checksum


class Maintenance:
    def __init__(self, server: EtcdServer, client_urls: Sequence[str]) -> None:
        self._server = server
        self._client_urls = client_urls
        self._alarms: set[AlarmType] = set()

    async def status(self, data: bytes) -> bytes:
        server = self._server
        size = await server.backing.size()
        revision = server.keyspace.revision
        return StatusResponse(
            header=server.header(),
            version=VERSION,
            dbSize=size,
            dbSizeInUse=size,
            dbSizeQuota=QUOTA_BYTES,
            leader=MEMBER_ID,
            raftIndex=revision,
            raftAppliedIndex=revision,
            raftTerm=1,
            storageVersion=CLUSTER_VERSION,
            downgradeInfo=DowngradeInfo(),
            errors=[str(alarm).strip() for alarm in self._active()],
        ).SerializeToString()

    async def hash(self, data: bytes) -> bytes:
        revision = self._server.keyspace.revision
        number = await self._hash(revision)
        return HashResponse(header=self._server.header(revision), hash=number).SerializeToString()

    async def hash_kv(self, data: bytes) -> bytes:
        request = parsed(HashKVRequest, data)
        keyspace = self._server.keyspace
        revision = request.revision if request.revision > 0 else keyspace.revision
        try:
            number = await self._hash(revision)
        except CompactedError as error:
            raise EtcdError(errors.COMPACTED) from error
        except FutureRevisionError as error:
            raise EtcdError(errors.FUTURE_REVISION) from error
        return HashKVResponse(
            header=self._server.header(),
            hash=number,
            compact_revision=keyspace.compacted,
            hash_revision=revision,
        ).SerializeToString()

    async def _hash(self, revision: int) -> int:
        checksum = 0
        for state in await self._states(revision):
            checksum = zlib.crc32(state.encoded(), checksum)
        return checksum

    async def _states(self, revision: int) -> Iterable[State]:
        keyspace = self._server.keyspace
        if keyspace.floor <= revision <= keyspace.revision:
            return keyspace.at(revision, ALL_KEYS, ALL_KEYS)
        return map(state_of, await self._server.backing.at(revision))

    async def snapshot(self, requests: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Sends all that exists now, each key as a KeyValue with its length before it."""
        states = await self._states(self._server.keyspace.revision)
        content = SNAPSHOT_MAGIC + b"".join(state.encoded() for state in states)
        content += bytes(-len(content) % _PAGE_BYTES)
        for first in range(0, len(content), _BLOB_BYTES):
            blob = content[first : first + _BLOB_BYTES]
            remaining = len(content) - first - len(blob)
            yield self._piece(blob, remaining)
        yield self._piece(hashlib.sha256(content).digest(), 0)

    def _piece(self, blob: bytes, remaining: int) -> bytes:
        return SnapshotResponse(
            remaining_bytes=remaining, blob=blob, version=CLUSTER_VERSION
        ).SerializeToString()

    async def defragment(self, data: bytes) -> bytes:
        return DefragmentResponse().SerializeToString()

    async def alarm(self, data: bytes) -> bytes:
        request = parsed(AlarmRequest, data)
        if request.action == AlarmRequest.ACTIVATE and request.alarm != AlarmType.NONE:
            self._alarms.add(request.alarm)
            alarms = [AlarmMember(memberID=MEMBER_ID, alarm=request.alarm)]
        elif request.action == AlarmRequest.DEACTIVATE:
            alarms = [alarm for alarm in self._active() if request.alarm == alarm.alarm]
            self._alarms.discard(request.alarm)
        else:
            alarms = [alarm for alarm in self._active() if request.alarm in (AlarmType.NONE, alarm.alarm)]
        return AlarmResponse(header=self._server.header(), alarms=alarms).SerializeToString()

    def _active(self) -> Sequence[AlarmMember]:
        return [AlarmMember(memberID=MEMBER_ID, alarm=alarm) for alarm in sorted(self._alarms)]

    async def member_list(self, data: bytes) -> bytes:
        member = Member(
            ID=MEMBER_ID, name="kubeskew", peerURLs=self._client_urls, clientURLs=self._client_urls
        )
        return MemberListResponse(header=self._server.header(), members=[member]).SerializeToString()

    async def auth_status(self, data: bytes) -> bytes:
        return AuthStatusResponse(header=self._server.header(), authRevision=1).SerializeToString()
