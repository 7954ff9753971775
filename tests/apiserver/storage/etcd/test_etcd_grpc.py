"""etcd's API over sockets: services, refusals, TLS, and what clients may send that is no request."""

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import grpc
import pytest
from click.testing import CliRunner
from etcd_calls import GRPCClient, RefusedError
from until import until

from kubeskew.apiserver.storage.etcd.cli import etcd
from kubeskew.apiserver.storage.etcd.grpc_server import GRPCServer, TLSFiles
from kubeskew.apiserver.storage.etcd.http_server import served
from kubeskew.apiserver.storage.etcd.maintenance import SNAPSHOT_MAGIC
from kubeskew.apiserver.storage.etcd.messages import rpc_pb2 as pb
from kubeskew.apiserver.storage.etcd.request_checks import MAX_REQUEST_BYTES
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.cluster.pki import Authority, KeyPair

URL = "http://127.0.0.1:2379"


def put_of(size: int) -> bytes:
    return pb.PutRequest(key=b"k", value=bytes(size)).SerializeToString()


@pytest.fixture
async def grpc_server(memory_server: EtcdServer) -> AsyncIterator[GRPCServer]:
    serving = GRPCServer(memory_server, [URL])
    yield serving
    await serving.stop()


@pytest.fixture
async def client(grpc_server: GRPCServer) -> AsyncIterator[GRPCClient]:
    port = await grpc_server.listen("127.0.0.1", 0, None)
    connected = GRPCClient(f"127.0.0.1:{port}")
    yield connected
    await connected.close()


async def test_a_write_and_its_event(client: GRPCClient):
    """KV, Watch and Lease work over a connection."""
    stream = client.watch()
    stream.send(pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a")))
    assert (await stream.next()).created
    lease = await client.call(pb.LeaseGrantRequest(TTL=60))
    await client.call(pb.PutRequest(key=b"a", value=b"1", lease=lease.ID))
    assert (await stream.next()).events[0].kv.lease == lease.ID
    alive = client.keep_alive()
    alive.send(pb.LeaseKeepAliveRequest(ID=lease.ID))
    assert (await alive.next()).TTL == 60
    await alive.close()
    await stream.close()


async def test_status(client: GRPCClient):
    """The version is one that kube-apiserver asks for progress of watches (3.5.13 and later)."""
    status = pb.StatusResponse.FromString(await client.raw("Maintenance/Status", b""))
    assert status.version.startswith("3.6.")
    assert status.leader == status.header.member_id != 0
    members = pb.MemberListResponse.FromString(await client.raw("Cluster/MemberList", b""))
    assert [list(member.clientURLs) for member in members.members] == [[URL]]


@pytest.mark.parametrize(
    ("method", "refusal"),
    [
        ("Auth/Authenticate", "FAILED_PRECONDITION: etcdserver: authentication is not enabled"),
        ("Auth/AuthEnable", "FAILED_PRECONDITION: etcdserver: root user does not exist"),
        ("Auth/UserAdd", "FAILED_PRECONDITION: etcdserver: not capable"),
        ("Cluster/MemberAdd", "FAILED_PRECONDITION: etcdserver: not capable"),
        ("Maintenance/MoveLeader", "FAILED_PRECONDITION: etcdserver: bad leader transferee"),
        ("KV/Unknown", "UNIMPLEMENTED: unknown method Unknown for service etcdserverpb.KV"),
        ("KV/Put", "INVALID_ARGUMENT: etcdserver: key is not provided"),
    ],
)
async def test_refusals(client: GRPCClient, method: str, refusal: str):
    """A refusal is one of etcd's, with its code."""
    with pytest.raises(RefusedError) as caught:
        await client.raw(method, b"")
    assert str(caught.value) == refusal


@pytest.mark.parametrize(
    ("data", "refusal"),
    [
        (b"\xff" * 50, "INTERNAL: grpc: error unmarshalling request"),
        (b"\x0a\x05ab", "INTERNAL: grpc: error unmarshalling request"),
        (put_of(MAX_REQUEST_BYTES), "INVALID_ARGUMENT: etcdserver: request is too large"),
        (put_of(3 << 20), "RESOURCE_EXHAUSTED: grpc: received message larger than max"),
        (put_of(9 << 20), "RESOURCE_EXHAUSTED: "),
    ],
)
async def test_requests_that_are_none(client: GRPCClient, data: bytes, refusal: str):
    """Bytes that are no message, and messages above the limits, are refused, and the server goes on."""
    with pytest.raises(RefusedError) as caught:
        await client.raw("KV/Put", data)
    assert str(caught.value).startswith(refusal)
    assert (await client.call(pb.PutRequest(key=b"k"))).header.revision == 2


async def test_a_stream_of_nonsense_ends(client: GRPCClient):
    """A watch stream that sends no message is ended with an error."""
    call = client.channel.stream_stream("/etcdserverpb.Watch/Watch")(iter([b"\xff\xff"]))
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    assert caught.value.code() is grpc.StatusCode.INTERNAL


async def test_a_snapshot(client: GRPCClient):
    """It has all keys, in whole pages, and its checksum at the end, so that etcdctl saves it."""
    await client.call(pb.PutRequest(key=b"a", value=bytes(100_000)))
    call = client.channel.unary_stream("/etcdserverpb.Maintenance/Snapshot")(b"")
    answers = [pb.SnapshotResponse.FromString(data) async for data in call]
    content = b"".join(answer.blob for answer in answers[:-1])
    assert content.startswith(SNAPSHOT_MAGIC)
    assert len(content) % 512 == 0
    assert len(content) > 100_000
    assert answers[-1].blob == hashlib.sha256(content).digest()
    assert [answer.remaining_bytes for answer in answers[-2:]] == [0, 0]


async def test_hashes_tell_states_apart(client: GRPCClient):
    """The hash at a revision stays the same, and differs from that of another state."""
    await client.call(pb.PutRequest(key=b"a"))
    first = pb.HashKVResponse.FromString(await client.raw("Maintenance/HashKV", b""))
    await client.call(pb.PutRequest(key=b"a"))
    request = pb.HashKVRequest(revision=2).SerializeToString()
    again = pb.HashKVResponse.FromString(await client.raw("Maintenance/HashKV", request))
    newest = pb.HashResponse.FromString(await client.raw("Maintenance/Hash", b""))
    assert (again.hash, again.hash_revision) == (first.hash, 2)
    assert newest.hash != first.hash


async def test_alarms_are_kept(client: GRPCClient):
    """An alarm is shown by the status until it is disarmed."""
    alarm = pb.AlarmRequest(action=pb.AlarmRequest.ACTIVATE, alarm=pb.NOSPACE)
    await client.raw("Maintenance/Alarm", alarm.SerializeToString())
    status = pb.StatusResponse.FromString(await client.raw("Maintenance/Status", b""))
    assert len(status.errors) == 1
    alarm.action = pb.AlarmRequest.DEACTIVATE
    await client.raw("Maintenance/Alarm", alarm.SerializeToString())
    assert not pb.StatusResponse.FromString(await client.raw("Maintenance/Status", b"")).errors


class TestTLS:
    """Certificates of clients."""

    @pytest.fixture
    def authority(self) -> Authority:
        return Authority.create(datetime.now(UTC))

    @pytest.fixture
    def files(self, authority: Authority, tmp_path: Path) -> TLSFiles:
        pair = authority.serving()
        names = {"ca.crt": authority.pair.certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
        for name, data in names.items():
            (tmp_path / name).write_bytes(data)
        return TLSFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt", True)

    async def call(self, port: int, authority: Authority, pair: KeyPair | None) -> int:
        credentials = grpc.ssl_channel_credentials(
            authority.pair.certificate, pair.key if pair else None, pair.certificate if pair else None
        )
        client = GRPCClient(f"localhost:{port}", credentials)
        try:
            return int((await client.call(pb.PutRequest(key=b"a"))).header.revision)
        finally:
            await client.close()

    async def test_certificates(self, grpc_server: GRPCServer, authority: Authority, files: TLSFiles):
        """A client with a certificate of the trusted authority is served, one without or of another not."""
        port = await grpc_server.listen("127.0.0.1", 0, files.context())
        assert await self.call(port, authority, authority.client("apiserver")) == 2
        stranger = Authority.create(datetime.now(UTC)).client("apiserver")
        for pair in (None, stranger):
            with pytest.raises(RefusedError, match="UNAVAILABLE"):
                await self.call(port, authority, pair)


async def test_health_version_and_metrics(memory_server: EtcdServer, unused_tcp_port: int):
    """They are served over HTTP where --listen-metrics-urls says."""
    async with (
        served(memory_server, [("127.0.0.1", unused_tcp_port)]),
        aiohttp.ClientSession(f"http://127.0.0.1:{unused_tcp_port}") as session,
    ):
        texts = {}
        for path in ("health", "version", "metrics"):
            async with session.get(f"/{path}") as response:
                texts[path] = await response.text()
    assert json.loads(texts["health"]) == {"health": "true", "reason": ""}
    assert json.loads(texts["version"])["etcdserver"].startswith("3.6.")
    assert "etcd_debugging_mvcc_current_revision 1" in texts["metrics"]


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--listen-client-urls", "ftp://127.0.0.1:1"], "URL scheme must be http, https, unix, or unixs"),
        (["--listen-client-urls", "http://127.0.0.1"], 'URL address does not have the form "host:port"'),
        (["--listen-client-urls", "http://127.0.0.1:1/x"], "URL must not contain a path"),
        (["--listen-client-urls", "http://127.0.0.1:x"], 'parse "http://127.0.0.1:x"'),
        (["--listen-client-urls", "https://127.0.0.1:1"], "--cert-file and --key-file must both be present"),
        (["--storage", "nowhere"], "nowhere is no URL of a log"),
        (["--watch-progress-notify-interval", "soon"], "time: invalid duration"),
    ],
)
def test_flags(flags: list[str], text: str):
    """A flag that cannot be is a usage error that says why."""
    result = CliRunner().invoke(etcd, flags)
    assert result.exit_code == 2
    assert text in " ".join(result.output.split())


async def test_the_end_of_a_reader_who_never_reads(client: GRPCClient, memory_server: EtcdServer):
    """The server's part of a connection that nobody reads is bounded, whatever is written meanwhile."""
    call = client.channel.stream_stream("/etcdserverpb.Watch/Watch")()
    create = pb.WatchRequest(create_request=pb.WatchCreateRequest(key=b"a"))
    await call.write(create.SerializeToString())
    await call.read()
    for _ in range(60):
        await client.call(pb.PutRequest(key=b"a", value=bytes(500_000)))
    (watcher,) = [*memory_server.watches.index.of(b"a")] or [None]
    queued = watcher.stream._queued if watcher is not None else 0
    assert queued < 8 << 20
    call.cancel()
    await until(lambda: not memory_server.watches.streams)
