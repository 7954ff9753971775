"""Links, addresses and routes of the network namespace in which the socket was made: the part of rtnetlink
that pods need.

Own code: pyroute2 0.9.7 takes 0.9 s to import, and 37 MB.

Source: linux/netlink.h, linux/rtnetlink.h, linux/if_link.h, linux/veth.h.
"""

import errno
import os
import socket
import struct
from collections.abc import Mapping
from ipaddress import IPv4Address
from types import TracebackType
from typing import Self

_NLMSG_ERROR = 2
_NEW_LINK, _DELETE_LINK, _SET_LINK, _NEW_ADDRESS, _DELETE_ADDRESS = 16, 17, 19, 20, 21
_NEW_ROUTE, _DELETE_ROUTE = 24, 25
_REQUEST, _ACK, _EXCLUSIVE, _CREATE, _REPLACE = 1, 4, 0x200, 0x400, 0x100
_IFLA_NAME, _IFLA_LINKINFO, _IFLA_AF_SPEC, _IFLA_NET_NS_FD = 3, 18, 26, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER, _INET_CONF = 1, 2, 1, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DESTINATION, _RTA_OUT, _RTA_GATEWAY, _RTA_PREFERRED = 1, 4, 5, 7
_TABLE_MAIN, _TABLE_LOCAL, _PROTOCOL_BOOT = 254, 255, 3
_SCOPE_UNIVERSE, _SCOPE_LINK, _SCOPE_HOST = 0, 253, 254
_UNICAST, _LOCAL = 1, 2
_IFF_UP = 1

# Of linux/ip.h: settings of a link.
FORWARDING, RP_FILTER, ROUTE_LOCALNET = 1, 8, 26


def _attribute(kind: int, payload: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def _name(kind: int, text: str) -> bytes:
    return _attribute(kind, text.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link(index: int = 0, flags: int = 0, mask: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, mask)


def _address(index: int, address: IPv4Address, prefix: int) -> bytes:
    scope = _SCOPE_HOST if address.is_loopback and prefix < 32 else _SCOPE_UNIVERSE
    head = struct.pack("=BBBBi", socket.AF_INET, prefix, 0, scope, index)
    return head + _attribute(_IFA_LOCAL, address.packed) + _attribute(_IFA_ADDRESS, address.packed)


def _route(prefix: int, table: int, scope: int, kind: int) -> bytes:
    return struct.pack("=BBBBBBBBI", socket.AF_INET, prefix, 0, 0, table, _PROTOCOL_BOOT, scope, kind, 0)


class Netlink:
    """Requests wait for the kernel's answer and raise OSError. It stays in the namespace it was made in."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def add_veth(self, name: str, peer: str, peer_namespace: int) -> None:
        """The peer is made in the network namespace of that descriptor."""
        peer_link = _link() + _name(_IFLA_NAME, peer) + _number(_IFLA_NET_NS_FD, peer_namespace)
        data = _attribute(_INFO_DATA, _attribute(_VETH_PEER, peer_link))
        info = _attribute(_IFLA_LINKINFO, _name(_INFO_KIND, "veth") + data)
        self._request(_NEW_LINK, _link() + _name(_IFLA_NAME, name) + info, _CREATE | _EXCLUSIVE)

    def delete_link(self, name: str) -> None:
        """A link that is not there is no error."""
        try:
            self._request(_DELETE_LINK, _link() + _name(_IFLA_NAME, name))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise

    def set_down(self, index: int) -> None:
        self._request(_SET_LINK, _link(index, 0, _IFF_UP))

    def set_up(self, index: int, settings: Mapping[int, int] | None = None) -> None:
        """`settings` are IPv4's of the link, which would else need a writable /proc/sys."""
        body = _link(index, _IFF_UP, _IFF_UP)
        if settings:
            values = b"".join(_number(kind, value) for kind, value in sorted(settings.items()))
            inet = _attribute(socket.AF_INET, _attribute(_INET_CONF, values))
            body += _attribute(_IFLA_AF_SPEC, inet)
        self._request(_SET_LINK, body)

    def add_address(self, index: int, address: IPv4Address, prefix: int = 32) -> None:
        self._request(_NEW_ADDRESS, _address(index, address, prefix), _CREATE | _REPLACE)

    def delete_address(self, index: int, address: IPv4Address, prefix: int = 32) -> None:
        self._request(_DELETE_ADDRESS, _address(index, address, prefix))

    def add_route(
        self,
        index: int,
        destination: IPv4Address | None = None,
        prefix: int = 32,
        gateway: IPv4Address | None = None,
        source: IPv4Address | None = None,
    ) -> None:
        """Without a destination it is the default route."""
        scope = _SCOPE_LINK if gateway is None else _SCOPE_UNIVERSE
        parts = b"" if destination is None else _attribute(_RTA_DESTINATION, destination.packed)
        parts += b"" if gateway is None else _attribute(_RTA_GATEWAY, gateway.packed)
        parts += b"" if source is None else _attribute(_RTA_PREFERRED, source.packed)
        length = 0 if destination is None else prefix
        self._route(length, _TABLE_MAIN, scope, _UNICAST, parts + _number(_RTA_OUT, index))

    def add_local_range(self, index: int, network: IPv4Address, prefix: int) -> None:
        """Every address of the range is one of this namespace's own from now on."""
        parts = _attribute(_RTA_DESTINATION, network.packed) + _number(_RTA_OUT, index)
        self._route(prefix, _TABLE_LOCAL, _SCOPE_HOST, _LOCAL, parts)

    def delete_local_range(self, index: int, network: IPv4Address, prefix: int) -> None:
        parts = _attribute(_RTA_DESTINATION, network.packed) + _number(_RTA_OUT, index)
        self._request(_DELETE_ROUTE, _route(prefix, _TABLE_LOCAL, _SCOPE_HOST, _LOCAL) + parts)

    def _route(self, prefix: int, table: int, scope: int, kind: int, parts: bytes) -> None:
        self._request(_NEW_ROUTE, _route(prefix, table, scope, kind) + parts, _CREATE | _REPLACE)

    def _request(self, kind: int, body: bytes, flags: int = 0) -> None:
        self._sequence += 1
        head = struct.pack("=IHHII", 16 + len(body), kind, _REQUEST | _ACK | flags, self._sequence, 0)
        self._socket.send(head + body)
        while True:
            answer = self._socket.recv(1 << 16)
            _, what, _, sequence, _ = struct.unpack_from("=IHHII", answer)
            if what != _NLMSG_ERROR or sequence != self._sequence:
                continue
            (number,) = struct.unpack_from("=i", answer, 16)
            if number:
                raise OSError(-number, os.strerror(-number))
            return
