"""Readiness: the conditions on which a change is effective, for every kind of process and for drivers.

A driver is ready by its own word and by what kubelets and the API server have of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.known_names import CONTROLLER, DRIVERS
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.drivers import is_device_plugin, name_of
from kubeskew.cluster.failures import ClusterError, named
from kubeskew.cluster.probes import Missing, Probes
from kubeskew.cluster.processes import tail
from kubeskew.cluster.state import Process, State, StateDir

# The text of a kubelet that does not accept such plugins; without it the kubelet has not answered yet.
_TAKES_NONE = "no handler registered for plugin type"
START_SECONDS = 75.0  # a driver's library may believe for a minute that a slice is there which is gone
SLOW_SECONDS = 4.0  # after which a wait is told, again and again
POLL_SECONDS = 0.01
_WAIT_SECONDS = 0.3  # that a component may take to answer, until it is ready
_POLL_SHARE = 0.02  # of the time waited so far: what takes long is asked for less often
_NOT_LEADING = "leading: not leading"
_UNSERVED = "the API server cannot list"

Progress = Callable[[str], None]


async def missing_of_driver(probes: Probes, state: State, process: Process) -> str:
    """Returns what a driver still lacks: registered with the kubelets, its file in effect, its slices
    stored."""
    lacking = await probes.missing(process)
    if lacking:
        return lacking
    told = await probes.json(process.url("/driver"))
    if told is None or told["revision"] != state.driver_revision:
        return "its file is not in effect yet"
    if process.kind == CONTROLLER:
        return ""
    if is_device_plugin(name_of(process)):
        return await _unpublished(probes, state, told)
    lacking = await _unregistered(probes, state, process, told)
    lacking = lacking or await _unlisted(probes, state, process, told)
    return lacking or await _unstored(probes, state, process, told)


async def _unpublished(probes: Probes, state: State, told: Mapping[str, Any]) -> str:
    """Names the nodes where a device plugin is not registered, or that tell its devices differently."""
    server = probes.server_of(state)
    if server is None:
        return ""
    listed = await probes.json(server.url("/api/v1/nodes"))
    statuses = {node["metadata"]["name"]: node["status"] for node in (listed or {"items": ()})["items"]}
    waiting = [
        node
        for node, entry in told["nodes"].items()
        if node not in state.killed_nodes and not _tells(statuses.get(node) or {}, told["resource"], entry)
    ]
    return f"its devices are not in the status of: {named(waiting)}" if waiting else ""


def _tells(status: Mapping[str, Any], resource: str, entry: Mapping[str, Any]) -> bool:
    allocatable = (status.get("allocatable") or {}).get(resource, "0")
    if not entry["shown"]:
        return not entry["registered"] and allocatable == "0"
    healths = list(entry["devices"].values())
    capacity = (status.get("capacity") or {}).get(resource)
    wanted = str(len(healths)), str(healths.count("Healthy"))
    return entry["registered"] and (capacity, allocatable) == wanted


async def _unregistered(probes: Probes, state: State, process: Process, told: Mapping[str, Any]) -> str:
    """Names the nodes whose kubelet takes plugins and lacks this one, or has it still after it vanished.

    A refusal is an answer too.
    """
    driver, waiting = name_of(process), []
    for kubelet in state.of_kind("kubelet"):
        for node, plugins in (await probes.plugins(kubelet)).items():
            entry = told["nodes"].get(node)
            if entry is None or plugins is None or node in state.killed_nodes:
                continue
            refused = entry["refused"] and _TAKES_NONE not in entry["refused"]
            known = driver in plugins
            settled = known and entry["registered"] if entry["shown"] else not known
            if not settled and not refused:
                waiting.append(node)
    return f"not registered with the kubelets of: {named(waiting)}" if waiting else ""


async def _unlisted(probes: Probes, state: State, process: Process, told: Mapping[str, Any]) -> str:
    """Names the nodes whose kubelet publishes what drivers tell it, and has not all of this one yet.

    So it was in 1.30 and in 1.29+kep4381. Without an API server there is nothing to wait for.
    """
    if probes.server_of(state) is None:
        return ""
    driver, waiting = name_of(process), []
    for kubelet in state.of_kind("kubelet"):
        for node, entries in (await probes.resources(kubelet)).items():
            entry, own = entries.get(driver), told["nodes"].get(node)
            if entry is None or own is None or node in state.killed_nodes:
                continue
            if not entry["told"] or entry["told"] != own["told"] or not entry["published"]:
                waiting.append(node)
    return f"its slices are not published by the kubelets of: {named(waiting)}" if waiting else ""


async def _unstored(probes: Probes, state: State, process: Process, told: Mapping[str, Any]) -> str:
    """Names the pools that the API server does not have as the driver wants them, and believes them to be.

    A pool that the driver's library or the server refused is not waited for.
    """
    server = probes.server_of(state, process.client)
    if told["api"] is None or server is None:
        return ""
    path = f"/apis/{told['api']}/resourceslices?fieldSelector=spec.driver%3D{told['driver']}"
    listed = await probes.json(server.url(path))
    generations = {
        each["metadata"]["uid"]: each["spec"]["pool"]["generation"]
        for each in (listed or {"items": ()})["items"]
    }
    waiting = [
        name
        for name, pool in told["pools"].items()
        if not pool["error"] and not _is_stored(pool, generations)
    ]
    return f"its slices are not stored yet, of the pools: {named(waiting)}" if waiting else ""


def _is_stored(pool: Mapping[str, Any], generations: Mapping[str, int]) -> bool:
    """Returns whether what is believed of a pool is stored, with as many slices of its generation as are
    wanted."""
    believed = list(pool["slices"].values())
    current = [uid for uid in believed if generations.get(uid) == pool["generation"]]
    return generations.keys() >= set(believed) and len(current) == pool["wanted"]


def silent(_text: str) -> None:
    """Hears of progress that nobody wants to see."""


async def wait_ready(
    directory: StateDir,
    probes: Probes,
    state: State,
    starting: Iterable[Process],
    progress: Progress = silent,
) -> None:
    """Returns when all are ready. Raises ClusterError if one ends, or takes too long."""
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
        if not probes.alive(process):
            raise ClusterError(f"{process.name} ended while starting; the end of {log}:\n{tail(log)}")

    def tell(lacking: Missing) -> None:
        hint = " (the lease of a leader that was killed ends after 15 s)" if _NOT_LEADING in lacking else ""
        progress(f"waiting for {process.name}: {' '.join(lacking.split())}{hint}")

    if process.kind != "apiserver" and probes.server_of(state, process.client) is None:
        names = " or ".join(server.name for server in state.servers_of(process.client))
        progress(f"{process.name} waits for {names}, which does not run")
        await wait_until(process.name, lambda: probes.answers(process), check_alive)
        return

    async def missing() -> Missing:
        if process.kind in DRIVERS:
            return await _kubelets_missing(probes, state) or await missing_of_driver(probes, state, process)
        lacking = await probes.missing(process, state.killed_nodes, _WAIT_SECONDS)
        if lacking and process.kind == "kubelet":
            await _check_kubelets(probes, process)
        if _UNSERVED in lacking and _differs_from_servers(state, process):
            progress(f"{process.name} waits for an API server that serves what it needs: {lacking}")
            return ""
        return lacking

    try:
        await wait_until(process.name, missing, check_alive, tell)
    except ClusterError as error:
        raise ClusterError(f"{error}\nSee its log: {log}") from None


def _differs_from_servers(state: State, process: Process) -> bool:
    """Returns whether an API server has another version or other gates than the process.

    What such a component lacks can come with the API server's own change, as on a way down; until then it
    does nothing, as upstream's, which waits for its caches without an end.
    """
    same = Version.parse(process.version), process.gates
    return any((Version.parse(server.version), server.gates) != same for server in state.of_kind("apiserver"))


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
        if probes.alive(kubelet) and probes.server_of(state, kubelet.client) is not None:
            lacking = await probes.missing(kubelet, state.killed_nodes, _WAIT_SECONDS)
            if lacking:
                return f"{kubelet.name}: {lacking}"
    return ""


async def wait_cluster(
    directory: StateDir, probes: Probes, state: State, progress: Progress = silent
) -> None:
    """Returns when everything that runs is ready, and namespace `default` can take pods."""
    wanted = [process for process in state.processes.values() if process.wanted]
    running = [process for process in wanted if probes.alive(process)]
    for process in wanted:
        if process not in running:
            progress(f"{process.name} has ended by itself: start it again with `kubeskew up`")
    server = probes.server_of(state)
    if server is None:
        return  # then nothing gets any further
    await wait_ready(directory, probes, state, running, progress)
    manages = any(process.kind == "controller-manager" for process in running)
    if manages and probes.server_of(state, "controller-manager") is not None:
        await wait_until("namespace default", lambda: probes.default_account_missing(server))


async def wait_until(
    what: str,
    missing: Callable[[], Awaitable[Missing]],
    check: Callable[[], None] = lambda: None,
    tell: Progress = silent,
) -> None:
    """Asks until nothing is missing; `tell` hears what is, if it takes long. Raises what `check` raises.

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
