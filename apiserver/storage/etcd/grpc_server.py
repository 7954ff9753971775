"""etcd's services over gRPC: which method is answered by what, and where."""

import asyncio
import logging
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.errors import EtcdError, Refusal, StatusCode
from kubeskew.apiserver.storage.etcd.http2 import CallError, Connection, Streaming, Unary
from kubeskew.apiserver.storage.etcd.http_answers import HTTPAnswers
from kubeskew.apiserver.storage.etcd.maintenance import Maintenance
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import StorageError

_RECEIVED_BYTES = 8 << 20  # of a message; above the limit that is refused in etcd's words

log = logging.getLogger(__name__)

# The rest of Auth manages users and roles, which are not kept.
_REFUSED: Mapping[str, Mapping[str, Refusal]] = {
    "etcdserverpb.Auth": {
        "AuthEnable": errors.ROOT_USER_NOT_EXIST,
        "Authenticate": errors.AUTH_NOT_ENABLED,
        **dict.fromkeys(
            (
                "AuthDisable", "UserAdd", "UserGet", "UserList", "UserDelete", "UserChangePassword",
                "UserGrantRole", "UserRevokeRole", "RoleAdd", "RoleGet", "RoleList", "RoleDelete",
                "RoleGrantPermission", "RoleRevokePermission",
            ),
            errors.NOT_CAPABLE,
        ),
    },
    "etcdserverpb.Cluster": dict.fromkeys(
        ("MemberAdd", "MemberRemove", "MemberUpdate", "MemberPromote"), errors.NOT_CAPABLE
    ),
    "etcdserverpb.Maintenance": {
        "MoveLeader": errors.BAD_LEADER_TRANSFEREE,
        "Downgrade": errors.NOT_CAPABLE,
    },
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """Clients show a certificate of `trusted_ca` if there is one. `client_auth` without it takes those of the
    system's authorities, as in etcd (client/pkg/transport/listener.go, 3.6).
    """

    certificate: Path
    key: Path
    trusted_ca: Path | None
    client_auth: bool

    def context(self) -> ssl.SSLContext:
        """Raises OSError, ValueError."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.trusted_ca)
        context.load_cert_chain(self.certificate, self.key)
        if self.trusted_ca is None and self.client_auth:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = ssl.CERT_REQUIRED if self.trusted_ca or self.client_auth else ssl.CERT_NONE
        context.set_alpn_protocols(["h2", "http/1.1"])
        return context


class GRPCServer:
    """Also answers HTTP/1.1 at the same port, as etcd does."""

    most_bytes = _RECEIVED_BYTES

    def __init__(self, server: EtcdServer, client_urls: Sequence[str]) -> None:
        self.connections: dict[Connection, None] = {}
        self.calls: dict[asyncio.Task[None], None] = {}
        self._answers = HTTPAnswers(server)
        self._listeners: list[asyncio.Server] = []
        maintenance = Maintenance(server, client_urls)
        methods: Mapping[str, Mapping[str, Unary]] = {
            "etcdserverpb.KV": {
                "Range": server.range,
                "Put": server.put,
                "DeleteRange": server.delete_range,
                "Txn": server.txn,
                "Compact": server.compact,
            },
            "etcdserverpb.Lease": {
                "LeaseGrant": server.lease_grant,
                "LeaseRevoke": server.lease_revoke,
                "LeaseTimeToLive": server.lease_time_to_live,
                "LeaseLeases": server.lease_leases,
            },
            "etcdserverpb.Maintenance": {
                "Status": maintenance.status,
                "Hash": maintenance.hash,
                "HashKV": maintenance.hash_kv,
                "Defragment": maintenance.defragment,
                "Alarm": maintenance.alarm,
            },
            "etcdserverpb.Cluster": {"MemberList": maintenance.member_list},
            "etcdserverpb.Auth": {"AuthStatus": maintenance.auth_status},
            "grpc.health.v1.Health": {"Check": _serving},
        }
        refused = {
            _path(service, method): _refusing(refusal)
            for service, refusals in _REFUSED.items()
            for method, refusal in refusals.items()
        }
        self._services = {*methods, "etcdserverpb.Watch"}
        self.unary: Mapping[bytes, Unary] = refused | {
            _path(service, method): answer
            for service, answers in methods.items()
            for method, answer in answers.items()
        }
        self.streaming: Mapping[bytes, Streaming] = {
            b"/etcdserverpb.Watch/Watch": lambda requests: server.watches.stream().serve(requests),
            b"/etcdserverpb.Lease/LeaseKeepAlive": server.lease_keep_alive,
            b"/etcdserverpb.Maintenance/Snapshot": maintenance.snapshot,
        }

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None) -> int:
        """Returns the port. Raises OSError if it cannot listen there."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Connection(self), host, port, ssl=tls)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def listen_at(self, path: Path) -> None:
        """Listens on a Unix socket, which the rights of its directory protect. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(lambda: Connection(self), path))

    async def stop(self) -> None:
        for listener in self._listeners:
            listener.close()
        for connection in list(self.connections):
            connection.close()
        for listener in self._listeners:
            await listener.wait_closed()

    def failed(self, error: Exception) -> CallError:
        if isinstance(error, EtcdError):
            return CallError(error.code, error.text)
        if isinstance(error, StorageError):
            return CallError(errors.TIMEOUT.code, f"{errors.TIMEOUT.text}: {error}")
        log.error("a call failed", exc_info=error)
        return CallError(StatusCode.INTERNAL, str(error))

    def unknown(self, path: str) -> CallError:
        """Words it as Go's server does."""
        service, _, method = path.removeprefix("/").rpartition("/")
        if service in self._services:
            return CallError(StatusCode.UNIMPLEMENTED, f"unknown method {method} for service {service}")
        return CallError(StatusCode.UNIMPLEMENTED, f"unknown service {service}")

    async def plain(self, path: str) -> tuple[int, str, str]:
        return await self._answers.answer(path)


def _path(service: str, method: str) -> bytes:
    return f"/{service}/{method}".encode()


def _refusing(refusal: Refusal) -> Unary:
    async def refuse(_: bytes) -> bytes:
        raise EtcdError(refusal)

    return refuse


async def _serving(_: bytes) -> bytes:
    return b"\x08\x01"
