"""etcd's services over gRPC: which method is answered by what, and the options of the connection."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from grpc import aio

from kubeskew.apiserver.storage.etcd import errors
from kubeskew.apiserver.storage.etcd.errors import EtcdError, Refusal
from kubeskew.apiserver.storage.etcd.maintenance import Maintenance
from kubeskew.apiserver.storage.etcd.server import EtcdServer
from kubeskew.apiserver.storage.interfaces import StorageError

Unary = Callable[[bytes], Awaitable[bytes]]

_RECEIVED_BYTES = 8 << 20  # above the limit that is refused in etcd's words
_OPTIONS = (
    ("grpc.max_receive_message_length", _RECEIVED_BYTES),
    ("grpc.max_send_message_length", -1),
    # Go's clients ping idle connections; the library's defaults would end them with "too many pings".
    ("grpc.http2.max_ping_strikes", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 0),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.so_reuseport", 0),
)
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
    """`trusted_ca` with `client_auth` makes clients show a certificate of that authority."""

    certificate: Path
    key: Path
    trusted_ca: Path | None
    client_auth: bool

    def credentials(self) -> Any:
        """Raises OSError, ValueError."""
        check = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        check.load_cert_chain(self.certificate, self.key)  # the library reports nothing until clients fail
        authority = self.trusted_ca.read_bytes() if self.trusted_ca is not None else None
        pair = (self.key.read_bytes(), self.certificate.read_bytes())
        return grpc.ssl_server_credentials([pair], authority, self.client_auth)


class GRPCServer:
    def __init__(self, server: EtcdServer, client_urls: Sequence[str]) -> None:
        self._server = aio.server(options=_OPTIONS)
        maintenance = Maintenance(server, client_urls)
        unary: Mapping[str, Mapping[str, Unary]] = {
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
        streams = {
            "etcdserverpb.Watch": {
                "Watch": grpc.stream_stream_rpc_method_handler(
                    _streamed(lambda it: server.watches.stream().serve(it))
                )
            },
            "etcdserverpb.Lease": {
                "LeaseKeepAlive": grpc.stream_stream_rpc_method_handler(_streamed(server.lease_keep_alive))
            },
            "etcdserverpb.Maintenance": {
                "Snapshot": grpc.unary_stream_rpc_method_handler(_streamed(maintenance.snapshot))
            },
        }
        for service in sorted({*unary, *streams, *_REFUSED}):
            handlers = {
                **{name: _handler(answer) for name, answer in unary.get(service, {}).items()},
                **{name: _handler(_refusing(why)) for name, why in _REFUSED.get(service, {}).items()},
                **streams.get(service, {}),
            }
            generic = grpc.method_handlers_generic_handler(service, handlers)
            self._server.add_generic_rpc_handlers([generic])

    def listen(self, address: str, tls: TLSFiles | None) -> int:
        """Returns the port. Raises OSError if it cannot listen there."""
        try:
            if tls is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, tls.credentials())
        except RuntimeError as error:
            raise OSError(f"listen tcp {address}: {error}") from error
        if not port:
            raise OSError(f"listen tcp {address}: bind failed")
        return int(port)

    async def start(self) -> None:
        await self._server.start()

    async def stop(self, grace: float | None) -> None:
        await self._server.stop(grace)


def _handler(answer: Unary) -> Any:
    async def answered(request: bytes, context: Any) -> bytes:
        try:
            return await answer(request)
        except EtcdError as error:
            await context.abort(error.code, error.text)
            raise
        except StorageError as error:
            await context.abort(errors.TIMEOUT.code, f"{errors.TIMEOUT.text}: {error}")
            raise

    return grpc.unary_unary_rpc_method_handler(answered)


def _refusing(refusal: Refusal) -> Unary:
    async def refuse(_: bytes) -> bytes:
        raise EtcdError(refusal)

    return refuse


async def _serving(_: bytes) -> bytes:
    return b"\x08\x01"


def _streamed(answers: Callable[[Any], AsyncIterator[bytes]]) -> Any:
    async def answered(requests: Any, context: Any) -> AsyncIterator[bytes]:
        try:
            async for answer in answers(requests):
                yield answer
        except EtcdError as error:
            await context.abort(error.code, error.text)

    return answered
