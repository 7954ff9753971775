"""The way out of a real API server into the cluster: CONNECT at a Unix socket that its egress selector names.

The server dials webhooks, extension servers, kubelets and pods through it; where an address leads the shim
knows. A refusal's status line has the reason, because that is all of an answer that the server reports
(k8s.io/apiserver/pkg/server/egressselector/egress_selector.go, 1.36).
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

import orjson

from kubeskew.apimachinery.process.network_agent import NetworkAgent, is_of_cluster
from kubeskew.apimachinery.streaming.splicing import End, Incoming, Splices
from kubeskew.apiserver.nodes.proxy import dial_failure
from kubeskew.apiserver.webhooks.endpoints import Address, ResolutionError

_DIAL_SECONDS = 30.0  # as Go's default transport
_HEAD_MAX = 1 << 14
_HEAD_END = b"\r\n\r\n"
_REQUEST = re.compile(rb"(\S+) (\S+) HTTP/1\.[01]")
_TARGET = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:]+)):([0-9]{1,5})")
_LAST_PORT = 65535
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"

Find = Callable[[str, int], Awaitable[Address]]  # raises ResolutionError


def egress_selection(socket: Path) -> bytes:
    """The EgressSelectorConfiguration by which a server's connections into the cluster go to the socket."""
    connection = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(socket)}}}
    return orjson.dumps(
        {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": connection}],
        }
    )


class Egress(Splices):
    @classmethod
    async def open(cls, socket: Path, find: Find, network: NetworkAgent | None = None) -> Self:
        """`find` says where an address leads, unless it is one of a `network`, which pods have. Raises
        OSError.
        """
        ends: dict[End, None] = {}
        loop = asyncio.get_running_loop()
        return cls(await loop.create_unix_server(lambda: _Tunnel(ends, find, network), socket), ends)


class _Tunnel(Incoming):
    def __init__(self, ends: dict[End, None], find: Find, network: NetworkAgent | None) -> None:
        super().__init__(ends)
        self._find = find
        self._network = network
        self._head = b""

    def data_received(self, data: bytes) -> None:
        if self.is_dialing:
            super().data_received(data)
            return
        self._head += data
        head, end, rest = self._head.partition(_HEAD_END)
        fits = len(head) <= _HEAD_MAX
        if fits and not end:
            return
        request = _REQUEST.fullmatch(head.partition(b"\r\n")[0]) if fits else None
        if request is None:
            self._refuse(400, "malformed HTTP request")
        elif request[1] != b"CONNECT":
            self._refuse(405, "only CONNECT is served here")
        elif (target := _target(request[2].decode("latin-1"))) is None:
            self._refuse(400, "the target is no HOST:PORT")
        else:
            self.begin(self._dial(target))
            if rest:
                super().data_received(rest)

    def eof_received(self) -> bool:
        """A client that asks for nothing more before it has asked at all is gone."""
        return super().eof_received() and self.is_dialing

    async def _dial(self, target: Address) -> None:
        address = target
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                if self._network is not None and is_of_cluster(target.host):
                    await self.join_socket(await self._network.dial(None, *target), _ESTABLISHED)
                    return
                address = await self._find(*target)
                await self.join(*address, _ESTABLISHED)
        except ResolutionError as error:
            self._refuse(502, str(error))
        except (OSError, TimeoutError, UnicodeError) as error:
            self._refuse(502, dial_failure(error, *address))

    def _refuse(self, code: int, reason: str) -> None:
        if self.transport is not None:
            words = " ".join(reason.split())
            head = f"HTTP/1.1 {code} {words}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            self.transport.write(head.encode())
        self.close()


def _target(text: str) -> Address | None:
    found = _TARGET.fullmatch(text)
    if found is None or int(found[3]) > _LAST_PORT:
        return None
    return Address(found[1] or found[2], int(found[3]))
