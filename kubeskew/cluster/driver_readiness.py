"""Decides when a driver is ready, from what it, the kubelets and the API server say."""

from collections.abc import Mapping
from typing import Any

from kubeskew.apimachinery.component_names import CONTROLLER
from kubeskew.cluster.drivers import is_device_plugin, name_of
from kubeskew.cluster.naming import named
from kubeskew.cluster.probes import Probes
from kubeskew.cluster.state import Process, State

# The text of a kubelet that does not accept such plugins; without it the kubelet has not answered yet.
_TAKES_NONE = "no handler registered for plugin type"


async def missing(probes: Probes, state: State, process: Process) -> str:
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
