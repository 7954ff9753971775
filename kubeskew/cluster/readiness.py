"""Decides when a change is effective: what every kind of process must say before a command returns."""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import aiohttp

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import driver_readiness, processes
from kubeskew.cluster.failures import ClusterError
from kubeskew.cluster.naming import named
from kubeskew.cluster.state import Process, State, StateDir

START_SECONDS = 60.0
SLOW_SECONDS = 4.0  # after which a wait is told, again and again
POLL_SECONDS = 0.03
_POLL_SHARE = 0.02  # of the time waited so far: what takes long is asked for less often
_NOT_LEADING = "leading: not leading"

Missing = str  # what is not there yet; empty if nothing
Progress = Callable[[str], None]


def silent(_text: str) -> None:
    """Progress that nobody wants to see."""


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

    async def missing(self, process: Process, killed: Collection[str] = ()) -> Missing:
        """Returns what `process` still lacks to be ready; nobody waits for the `killed` nodes."""
        if process.kind == "apiserver":
            return await self._apiserver_missing(process)
        status, text = await self.request("GET", f"http://127.0.0.1:{process.port}/readyz")
        if status != 200:
            return text or "no answer"
        return await self._nodes_missing(process, killed) if process.kind == "kubelet" else ""

    async def answers(self, process: Process) -> Missing:
        """Empty once the process answers at all."""
        status, _ = await self.request("GET", f"http://127.0.0.1:{process.port}/livez")
        return "" if status else "no answer"

    async def _apiserver_missing(self, process: Process) -> Missing:
        base = f"https://127.0.0.1:{process.port}"
        status, text = await self.request("GET", f"{base}/readyz")
        if status != 200:
            return text or "no answer"
        answered = (await self.json(f"{base}/version") or {}).get("gitVersion")
        expected = Version.parse(process.version).git_version
        return "" if answered == expected else f"it answers as {answered}"

    async def hosted(self, process: Process) -> dict[str, Any] | None:
        """The kubelet process' nodes; None if it does not answer."""
        found = await self.json(f"http://127.0.0.1:{process.port}/nodes")
        return found if isinstance(found, dict) else None

    async def prepared(self, process: Process) -> dict[str, dict[str, list[dict[str, Any]]]]:
        """Returns the claims that the kubelet process' drivers hold prepared: node → driver → claims."""
        return await self.json(f"http://127.0.0.1:{process.port}/prepared") or {}

    async def plugins(self, process: Process) -> dict[str, list[str] | None]:
        """The drivers that registered with a kubelet process: by node; None for one that takes none."""
        return await self.json(process.url("/plugins")) or {}

    async def _nodes_missing(self, process: Process, killed: Collection[str]) -> Missing:
        hosted = await self.hosted(process) or {}
        waiting = [n for n in process.nodes if n not in killed and not hosted.get(n, {}).get("ready")]
        return f"nodes not ready: {named(waiting)}" if waiting else ""

    async def default_account_missing(self, server: Process) -> Missing:
        """Returns whether namespace `default` has its service account, which the controller manager makes."""
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        status, _ = await self.request("GET", f"https://127.0.0.1:{server.port}{path}")
        return "" if status == 200 else "service account default/default does not exist"


async def wait_ready(
    directory: StateDir,
    probes: Probes,
    state: State,
    starting: Iterable[Process],
    progress: Progress = silent,
) -> None:
    """Return when all are ready. Raises ClusterError if one ends, or takes too long."""
    try:
        async with asyncio.TaskGroup() as group:
            for process in starting:
                group.create_task(_wait_one(directory, probes, state, process, progress))
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _wait_one(
    directory: StateDir, probes: Probes, state: State, process: Process, progress: Progress
) -> None:
    log = directory.log(process.name)

    def check_alive() -> None:
        if not processes.alive(process.pid, process.birth):
            raise ClusterError(
                f"{process.name} ended while starting; the end of {log}:\n{processes.tail(log)}"
            )

    def tell(lacking: Missing) -> None:
        hint = " (the lease of a leader that was killed ends after 15 s)" if _NOT_LEADING in lacking else ""
        progress(f"waiting for {process.name}: {' '.join(lacking.split())}{hint}")

    if process.kind != "apiserver" and not server_runs(state):
        progress(f"{process.name} waits for the API server, which does not run")
        await wait_until(process.name, lambda: probes.answers(process), check_alive)
        return

    async def missing() -> Missing:
        if process.kind == "driver":
            return await _kubelets_missing(probes, state) or await driver_readiness.missing(
                probes, state, process
            )
        lacking = await probes.missing(process, state.killed_nodes)
        if lacking and process.kind == "kubelet":
            await _check_kubelets(probes, process)
        return lacking

    try:
        await wait_until(process.name, missing, check_alive, tell)
    except ClusterError as error:
        raise ClusterError(f"{error}\nSee its log: {log}") from None


async def _check_kubelets(probes: Probes, process: Process) -> None:
    """Raises ClusterError if a kubelet gave up, as upstream ends it: waiting does not help."""
    failed: dict[str, list[str]] = {}
    for node, entry in (await probes.hosted(process) or {}).items():
        if "error" in entry:
            failed.setdefault(entry["error"], []).append(node)
    if failed:
        lines = [f"the kubelet of {named(nodes)} does not run: {error}" for error, nodes in failed.items()]
        raise ClusterError("\n".join(lines))


async def _kubelets_missing(probes: Probes, state: State) -> Missing:
    """Returns what running kubelets lack: nothing comes of a driver before its nodes are up."""
    for kubelet in state.of_kind("kubelet"):
        if processes.alive(kubelet.pid, kubelet.birth):
            lacking = await probes.missing(kubelet, state.killed_nodes)
            if lacking:
                return f"{kubelet.name}: {lacking}"
    return ""


def server_runs(state: State) -> bool:
    """Returns whether the API server that the components speak to, the first, has a process."""
    server = state.of_kind("apiserver")[0]
    return processes.alive(server.pid, server.birth)


async def wait_cluster(
    directory: StateDir, probes: Probes, state: State, progress: Progress = silent
) -> None:
    """Return when everything that runs is ready, and namespace `default` can take pods."""
    wanted = [process for process in state.processes.values() if process.wanted]
    running = [process for process in wanted if processes.alive(process.pid, process.birth)]
    for process in wanted:
        if process not in running:
            progress(f"{process.name} has ended by itself: start it again with `kubeskew up`")
    if not server_runs(state):
        return  # then nothing gets any further
    await wait_ready(directory, probes, state, running, progress)
    if any(process.kind == "controller-manager" for process in running):
        server = state.of_kind("apiserver")[0]
        await wait_until("namespace default", lambda: probes.default_account_missing(server))


async def wait_until(
    what: str,
    missing: Callable[[], Awaitable[Missing]],
    check: Callable[[], None] = lambda: None,
    tell: Progress = silent,
) -> None:
    """Ask until nothing is missing; `tell` hears what is, if it takes long. Raises what `check` raises.

    Raises ClusterError where nothing happens any more: what is missing is the same for START_SECONDS, or it
    takes ten times as long in all.
    """
    loop = asyncio.get_running_loop()
    started = changed = told = loop.time()
    last = ""
    while True:
        lacking = await missing()
        check()
        if not lacking:
            return
        now = loop.time()
        if lacking != last:
            last, changed = lacking, now
        if now - changed > START_SECONDS or now - started > 10 * START_SECONDS:
            raise ClusterError(f"{what} is not ready after {now - started:.0f} s: {lacking}")
        if now - told > SLOW_SECONDS:
            tell(lacking)
            told = now
        await asyncio.sleep(max(POLL_SECONDS, (now - started) * _POLL_SHARE))
