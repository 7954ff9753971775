"""Readiness: the conditions on which a change is effective, for every kind of process and for drivers.

A driver is ready once it says so, and kubelets and the API server have its data.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from kubeskew.apimachinery.known_names import CONTROLLER, DRIVERS
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster.drivers import entries as drivers_of_node
from kubeskew.cluster.drivers import is_device_plugin, name_of
from kubeskew.cluster.failures import ClusterError, ProgramError, named
from kubeskew.cluster.probes import Missing, Probes
from kubeskew.cluster.processes import last_error, tail
from kubeskew.cluster.state import Process, State, StateDir

# The text of a kubelet that does not accept such plugins; without it the kubelet has not answered yet.
_TAKES_NONE = "no handler registered for plugin type"
START_SECONDS = 75.0  # a driver's library may believe for a minute that a deleted slice exists
SLOW_SECONDS = 4.0  # between reports of a wait
POLL_SECONDS = 0.01
_WAIT_SECONDS = 0.3  # that a component may take to answer until it is ready
_POLL_SHARE = 0.02  # of the time waited so far: long waits poll less often
_NOT_LEADING = "leading: not leading"
_UNSERVED = "the API server cannot list"

Progress = Callable[[str], None]


async def missing_of_driver(probes: Probes, state: State, process: Process) -> str:
    """Drivers have to be registered with the kubelets, with their file in effect and their slices stored; the
    text is empty once they are.
    """
    lacking = await probes.missing(process)
    if lacking:
        return lacking
    if process.program is not None:
        return await _unknown_program(probes, state, process)
    report = await probes.json(process.url("/driver"))
    if report is None or report["revision"] != state.driver_revision:
        return "its file is not in effect yet"
    if process.kind == CONTROLLER:
        return ""
    if is_device_plugin(name_of(process)):
        return await _unpublished(probes, state, report)
    lacking = await _unregistered(probes, state, process, report)
    lacking = lacking or await _unlisted(probes, state, process, report)
    return lacking or await _unstored(probes, state, process, report)


async def _unknown_program(probes: Probes, state: State, process: Process) -> str:
    """On these nodes the kubelet does not have a real driver's plugin yet. What the program publishes is its
    own business.
    """
    driver, waiting = name_of(process), []
    for kubelet in state.of_kind("kubelet"):
        for node, plugins in (await probes.plugins(kubelet)).items():
            has = driver in drivers_of_node(state.nodes.get(node) or {})
            if has and plugins is not None and node not in state.killed_nodes and driver not in plugins:
                waiting.append(node)
    return f"not registered with the kubelets of: {named(waiting)}" if waiting else ""


async def _unpublished(probes: Probes, state: State, report: Mapping[str, Any]) -> str:
    """On these nodes a device plugin is not registered, or the status has other devices."""
    server = probes.server_of(state)
    if server is None:
        return ""
    listed = await probes.json(server.url("/api/v1/nodes"))
    statuses = {node["metadata"]["name"]: node["status"] for node in (listed or {"items": ()})["items"]}
    waiting = [
        node
        for node, entry in report["nodes"].items()
        if node not in state.killed_nodes and not _shows(statuses.get(node) or {}, report["resource"], entry)
    ]
    return f"its devices are not in the status of: {named(waiting)}" if waiting else ""


def _shows(status: Mapping[str, Any], resource: str, entry: Mapping[str, Any]) -> bool:
    allocatable = (status.get("allocatable") or {}).get(resource, "0")
    if not entry["shown"]:
        return not entry["registered"] and allocatable == "0"
    healths = list(entry["devices"].values())
    capacity = (status.get("capacity") or {}).get(resource)
    wanted = str(len(healths)), str(healths.count("Healthy"))
    return entry["registered"] and (capacity, allocatable) == wanted


async def _unregistered(probes: Probes, state: State, process: Process, report: Mapping[str, Any]) -> str:
    """Kubelets of these nodes take plugins and lack this one, or still have it after it vanished.

    A refusal counts as settled.
    """
    driver, waiting = name_of(process), []
    for kubelet in state.of_kind("kubelet"):
        for node, plugins in (await probes.plugins(kubelet)).items():
            entry = report["nodes"].get(node)
            if entry is None or plugins is None or node in state.killed_nodes:
                continue
            refused = entry["refused"] and _TAKES_NONE not in entry["refused"]
            known = driver in plugins
            settled = known and entry["registered"] if entry["shown"] else not known
            if not settled and not refused:
                waiting.append(node)
    return f"not registered with the kubelets of: {named(waiting)}" if waiting else ""


async def _unlisted(probes: Probes, state: State, process: Process, report: Mapping[str, Any]) -> str:
    """Kubelets of these nodes publish the resources of drivers, and do not have all of this one yet.

    They did so in 1.30 and in 1.29+kep4381. Without an API server there is nothing to wait for.
    """
    if probes.server_of(state) is None:
        return ""
    driver, waiting = name_of(process), []
    for kubelet in state.of_kind("kubelet"):
        for node, entries in (await probes.resources(kubelet)).items():
            entry, own = entries.get(driver), report["nodes"].get(node)
            if entry is None or own is None or node in state.killed_nodes:
                continue
            if not entry["digest"] or entry["digest"] != own["digest"] or not entry["published"]:
                waiting.append(node)
    return f"its slices are not published by the kubelets of: {named(waiting)}" if waiting else ""


async def _unstored(probes: Probes, state: State, process: Process, report: Mapping[str, Any]) -> str:
    """These pools are not stored in the API server as the driver wants them, and believes them to be.

    A pool that the driver's library or the server refused is not waited for.
    """
    server = probes.server_of(state, process.client)
    if report["api"] is None or server is None:
        return ""
    path = f"/apis/{report['api']}/resourceslices?fieldSelector=spec.driver%3D{report['driver']}"
    listed = await probes.json(server.url(path))
    generations = {
        each["metadata"]["uid"]: each["spec"]["pool"]["generation"]
        for each in (listed or {"items": ()})["items"]
    }
    waiting = [
        name
        for name, pool in report["pools"].items()
        if not pool["error"] and not _is_stored(pool, generations)
    ]
    return f"its slices are not stored yet, of the pools: {named(waiting)}" if waiting else ""


def _is_stored(pool: Mapping[str, Any], generations: Mapping[str, int]) -> bool:
    """Slices that the driver believes to be stored are stored, as many of the pool's generation as are
    wanted.
    """
    believed = list(pool["slices"].values())
    current = [uid for uid in believed if generations.get(uid) == pool["generation"]]
    return generations.keys() >= set(believed) and len(current) == pool["wanted"]


def silent(_text: str) -> None:
    """Discards progress."""


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
            if process.program is not None:
                path = process.program.path
                raise ProgramError(f"{path} ended while starting: {last_error(log)}", log)
            raise ClusterError(f"{process.name} ended while starting; the end of {log}:\n{tail(log)}")

    def report_waiting(lacking: Missing) -> None:
        hint = " (the lease of a leader that was killed ends after 15 s)" if _NOT_LEADING in lacking else ""
        progress(f"waiting for {process.name}: {lacking}{hint}")

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
        await wait_until(process.name, missing, check_alive, report_waiting)
    except ClusterError as error:
        if process.program is not None:
            raise ProgramError(f"{process.program.path}: {error}", log) from None
        raise ClusterError(f"{error}\nSee its log: {log}") from None


def _differs_from_servers(state: State, process: Process) -> bool:
    """True if an API server has another version or other gates than the process.

    A component like that may become ready only with the API server's own change, as in a downgrade; until
    then it does nothing, like upstream's, which waits for its caches without end.
    """
    same = Version.parse(process.version), process.gates
    return any((Version.parse(server.version), server.gates) != same for server in state.of_kind("apiserver"))


async def _check_kubelets(probes: Probes, process: Process) -> None:
    """Raises ClusterError if a kubelet gave up, at which upstream's exits: waiting is useless."""
    failed: dict[str, list[str]] = {}
    for node, entry in (await probes.hosted(process) or {}).items():
        if "error" in entry:
            failed.setdefault(entry["error"], []).append(node)
    if failed:
        lines = [f"the kubelet of {named(nodes)} does not run: {error}" for error, nodes in failed.items()]
        raise ClusterError("\n".join(lines))


async def _kubelets_missing(probes: Probes, state: State) -> Missing:
    """Drivers need their nodes first; the text is empty once running kubelets lack nothing."""
    for kubelet in state.of_kind("kubelet"):
        if probes.alive(kubelet) and probes.server_of(state, kubelet.client) is not None:
            lacking = await probes.missing(kubelet, state.killed_nodes, _WAIT_SECONDS)
            if lacking:
                return f"{kubelet.name}: {lacking}"
    return ""


async def wait_cluster(
    directory: StateDir, probes: Probes, state: State, progress: Progress = silent
) -> None:
    """Returns when every running process is ready, and namespace `default` can take pods."""
    wanted = [process for process in state.processes.values() if process.wanted]
    running = [process for process in wanted if probes.alive(process)]
    for process in wanted:
        if process not in running:
            progress(f"{process.name} has ended by itself: start it again with `kubeskew up`")
    server = probes.server_of(state)
    if server is None:
        return  # nothing can progress then
    await wait_ready(directory, probes, state, running, progress)
    manages = any(process.kind == "controller-manager" for process in running)
    if manages and probes.server_of(state, "controller-manager") is not None:
        await wait_until("namespace default", lambda: probes.default_account_missing(server))


async def wait_until(
    what: str,
    missing: Callable[[], Awaitable[Missing]],
    check: Callable[[], None] = lambda: None,
    report: Progress = silent,
) -> None:
    """Polls until nothing is missing; `report` gets the missing part now and then. Raises the errors of
    `check`.

    Raises ClusterError if nothing changes for START_SECONDS, or after ten times as long in all.
    """
    loop = asyncio.get_running_loop()
    started = changed = reported = loop.time()
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
        if now - reported > SLOW_SECONDS:
            report(lacking)
            reported = now
        await asyncio.sleep(max(POLL_SECONDS, (now - started) * _POLL_SHARE))
