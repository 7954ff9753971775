"""When a change is effective: what every kind of process must say before a command returns."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import aiohttp

from kubeskew import processes
from kubeskew.failures import ClusterError
from kubeskew.state import Process, State, StateDir

START_SECONDS = 60.0
POLL_SECONDS = 0.03

Missing = str  # what is not there yet; empty if nothing


class Probes:
    """Asks the processes of one cluster, as its administrator."""

    def __init__(self, directory: StateDir) -> None:
        self._directory = directory
        tls = ssl.create_default_context(cafile=str(directory.ca))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, force_close=True),
            headers={
                "Authorization": f"Bearer {directory.token.read_text().strip()}",
                "User-Agent": "kubeskew/0.1",
            },
            timeout=aiohttp.ClientTimeout(total=5),
        )

    async def __aenter__(self) -> "Probes":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()

    async def request(self, method: str, url: str, body: Any = None) -> tuple[int, str]:
        """Status and text of the answer; status 0 and the reason if there is none."""
        try:
            async with self._session.request(method, url, json=body) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            return 0, str(error)

    async def json(self, url: str) -> Any:
        """The JSON answer to a GET; None if there is none."""
        status, text = await self.request("GET", url)
        if status != 200:
            return None
        return json.loads(text)

    async def missing(self, process: Process) -> Missing:
        """What `process` still lacks to be ready."""
        if process.kind == "apiserver":
            return await self._apiserver_missing(process)
        status, text = await self.request("GET", f"http://127.0.0.1:{process.port}/readyz")
        if status != 200:
            return text or "no answer"
        return await self._nodes_missing(process) if process.kind == "kubelet" else ""

    async def _apiserver_missing(self, process: Process) -> Missing:
        base = f"https://127.0.0.1:{process.port}"
        status, text = await self.request("GET", f"{base}/readyz")
        if status != 200:
            return text or "no answer"
        minor = (await self.json(f"{base}/version") or {}).get("minor")
        return "" if f"1.{minor}" == process.version else f"it answers as 1.{minor}"

    async def hosted(self, process: Process) -> dict[str, Any] | None:
        """The kubelet process' nodes; None if it does not answer."""
        found = await self.json(f"http://127.0.0.1:{process.port}/nodes")
        return found if isinstance(found, dict) else None

    async def prepared(self, process: Process) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """What the kubelet process' drivers hold prepared: node → driver → claims."""
        return await self.json(f"http://127.0.0.1:{process.port}/prepared") or {}

    async def _nodes_missing(self, process: Process) -> Missing:
        hosted = await self.hosted(process) or {}
        waiting = [name for name in process.nodes if not hosted.get(name, {}).get("ready")]
        return f"nodes not ready: {', '.join(waiting)}" if waiting else ""

    async def default_account_missing(self, server: Process) -> Missing:
        """Whether namespace `default` has its service account, which the controller manager makes."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        status, _ = await self.request("GET", f"https://127.0.0.1:{server.port}{path}")
        return "" if status == 200 else "service account default/default does not exist"


async def wait_ready(directory: StateDir, probes: Probes, ready: Iterable[Process]) -> None:
    """Return when all are ready. Raises ClusterError if one ends, or takes too long."""
    async with asyncio.TaskGroup() as group:
        for process in ready:
            group.create_task(_wait_one(directory, probes, process))


async def _wait_one(directory: StateDir, probes: Probes, process: Process) -> None:
    def check_alive() -> None:
        if not processes.alive(process.pid, process.birth):
            log = directory.log(process.name)
            raise ClusterError(
                f"{process.name} ended while starting; the end of {log}:\n{processes.tail(log)}"
            )

    await wait_until(process.name, lambda: probes.missing(process), check_alive)


async def wait_cluster(directory: StateDir, probes: Probes, state: State) -> None:
    """Return when everything that should run is ready, and namespace `default` can take pods."""
    running = [process for process in state.processes.values() if process.wanted]
    try:
        await wait_ready(directory, probes, running)
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    servers = [process for process in running if process.kind == "apiserver"]
    if servers and any(process.kind == "controller-manager" for process in running):
        await wait_until("namespace default", lambda: probes.default_account_missing(servers[0]))


async def wait_until(
    what: str, missing: Callable[[], Awaitable[Missing]], check: Callable[[], None] = lambda: None
) -> None:
    """Ask until nothing is missing. Raises ClusterError after START_SECONDS, or what `check` raises."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_SECONDS
    while lacking := await missing():
        check()
        if loop.time() > deadline:
            raise ClusterError(f"{what} is not ready after {START_SECONDS:.0f} s: {lacking}")
        await asyncio.sleep(POLL_SECONDS)
