"""Requests to the processes of a cluster about their state."""

import json
import ssl
from collections.abc import Collection
from typing import Any, Protocol

import aiohttp

from kubeskew.apimachinery.process.health_checks import WAIT
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.failures import named
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import Process, State, StateDir

Missing = str  # what is missing; empty if nothing


class Transport(Protocol):
    """Carries requests to processes, as the cluster's administrator."""

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        """The result is (status, text) of the response, or (0, reason) without one."""
        ...

    async def close(self) -> None: ...


class HTTPTransport:
    """Uses the network, with the credentials in a state directory."""

    def __init__(self, directory: StateDir) -> None:
        tls = ssl.create_default_context(cafile=str(directory.ca))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls),
            headers={
                "Authorization": f"Bearer {directory.token.read_text().strip()}",
                "User-Agent": "kubeskew/0.1",
            },
            timeout=aiohttp.ClientTimeout(total=5),
        )

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        try:
            async with self._session.request(method, url, json=body) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return 0, str(error)

    async def close(self) -> None:
        await self._session.close()


class Probes:
    """Requests have the rights of the cluster's administrator, over `transport`."""

    def __init__(self, transport: Transport, processes: Processes) -> None:
        self._transport = transport
        self._processes = processes

    async def __aenter__(self) -> "Probes":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._transport.close()

    def alive(self, process: Process) -> bool:
        return self._processes.alive(process.pid, process.birth)

    def server_of(self, state: State, component: str = "") -> Process | None:
        """The server must run; None if none does. Without a component any server will do."""
        servers = state.servers_of(component) if component else state.of_kind("apiserver")
        return next((server for server in servers if self.alive(server)), None)

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        return await self._transport.request(method, url, body)

    async def json(self, url: str) -> Any:
        """None unless the status is 200."""
        status, text = await self.request("GET", url)
        if status != 200:
            return None
        return json.loads(text)

    async def missing(self, process: Process, killed: Collection[str] = (), wait: float = 0.0) -> Missing:
        """The text is empty once `process` is ready; nodes that are `killed`, or that a fault has ended, do
        not count.

        Components other than the API server may take up to `wait` seconds to answer, until they are ready.
        """
        if process.kind == "apiserver":
            return await self._apiserver_missing(process)
        path = f"/readyz?{WAIT}={wait}" if wait else "/readyz"
        status, text = await self.request("GET", process.url(path))
        if status != 200:
            return "; ".join(text.splitlines()) or "no answer"
        return await self._nodes_missing(process, killed) if process.kind == "kubelet" else ""

    async def answers(self, process: Process) -> Missing:
        """Any response will do, also an error."""
        status, _ = await self.request("GET", f"http://127.0.0.1:{process.port}/livez")
        return "" if status else "no answer"

    async def _apiserver_missing(self, process: Process) -> Missing:
        base = f"https://127.0.0.1:{process.port}"
        status, text = await self.request("GET", f"{base}/readyz")
        if status != 200:
            return text or "no answer"
        answered = (await self.json(f"{base}/version") or {}).get("gitVersion")
        if process.program is not None and not process.program.version.startswith("v1."):
            return ""  # its build has no version
        expected = process.program.version if process.program else Version.parse(process.version).git_version
        return "" if answered == expected else f"it answers as {answered}"

    async def hosted(self, process: Process) -> dict[str, Any] | None:
        """None if the kubelet process does not answer."""
        found = await self.json(f"http://127.0.0.1:{process.port}/nodes")
        return found if isinstance(found, dict) else None

    async def prepared(self, process: Process) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Claims are by node, then by driver."""
        return await self.json(f"http://127.0.0.1:{process.port}/prepared") or {}

    async def plugins(self, process: Process) -> dict[str, list[str] | None]:
        """Drivers are by node; None for a node that takes no plugins."""
        return await self.json(process.url("/plugins")) or {}

    async def resources(self, process: Process) -> dict[str, dict[str, dict[str, Any]]]:
        """Resources are by node, then by driver."""
        return await self.json(process.url("/resources")) or {}

    async def _nodes_missing(self, process: Process, killed: Collection[str]) -> Missing:
        hosted = await self.hosted(process) or {}
        waited = [n for n in process.nodes if n not in killed and not hosted.get(n, {}).get("crashed")]
        waiting = [n for n in waited if not hosted.get(n, {}).get("ready")]
        return f"nodes not ready: {named(waiting)}" if waiting else ""

    async def default_account_missing(self, server: Process) -> Missing:
        """Namespace `default` is usable once the controller manager has created its service account."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        status, _ = await self.request("GET", f"https://127.0.0.1:{server.port}{path}")
        return "" if status == 200 else "service account default/default does not exist"
