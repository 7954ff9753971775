"""Asks the components of a simulation what a cluster's supervisor asks them."""

import asyncio
import errno
import json
from collections.abc import Coroutine, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from kubeskew.apimachinery.client.transport import Request
from kubeskew.cluster.state import StateDir
from kubeskew.simulation.network import Network, NetworkTransport
from kubeskew.simulation.processes import Process

_PROBE_SECONDS = 5.0


class ProbeTransport:
    """`cluster.probes.Transport` over the network, with the credentials in a state directory."""

    def __init__(self, network: Network, directory: StateDir) -> None:
        self._network = network
        token = directory.token.read_text().strip()
        self._headers = {"Authorization": f"Bearer {token}", "User-Agent": "kubeskew/0.1"}

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        parts = urlsplit(url)
        target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                if parts.scheme == "http":
                    return await self._health(parts.port or 0, target)
                return await self._ask(parts.port or 0, Request(method, target, *self._message(body)))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return 0, str(error)

    def _message(self, body: Any) -> tuple[Mapping[str, str], bytes | None, float]:
        if body is None:
            return self._headers, None, _PROBE_SECONDS
        headers = {**self._headers, "Content-Type": "application/json"}
        return headers, json.dumps(body).encode(), _PROBE_SECONDS

    async def _ask(self, port: int, request: Request) -> tuple[int, str]:
        answer = await NetworkTransport(self._network, port, None, 1)(request)
        return answer.status, (await answer.body()).decode()

    async def _health(self, port: int, target: str) -> tuple[int, str]:
        listener = self._network.healths.get(port)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed ('127.0.0.1', {port})")
        if listener.process is None:
            return await listener.get(target)
        return await _until_gone(listener.process, listener.get(target))

    async def close(self) -> None:
        """Does nothing: there are no connections."""


async def _until_gone(process: Process, work: Coroutine[Any, Any, tuple[int, str]]) -> tuple[int, str]:
    """Returns what `work` of a process returns. Raises ConnectionResetError if the process ends before."""
    found: asyncio.Future[tuple[int, str]] = asyncio.get_running_loop().create_future()

    def gone() -> None:
        if not found.done():
            found.set_exception(ConnectionResetError("Connection reset by peer"))

    async def settle() -> None:
        result = await work
        if not found.done():
            found.set_result(result)

    process.ended[gone] = None
    process.spawn(settle())
    try:
        return await found
    finally:
        process.ended.pop(gone, None)
