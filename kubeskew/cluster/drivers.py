"""The drivers of the local cluster: one process per driver, for all nodes that have it; device plugins, too.

Device plugins are named by their resource, which has a slash, unlike the names of drivers. The controller of
a driver that has one is a process of its own, with an account of its own.

A driver is no Kubernetes component: the version of its process is the release whose driver library it is
built with, and stays when the cluster changes, unless the driver is named itself.
"""

import json
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.known_names import CONTROLLER, DRIVER, meant
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.processes import Processes
from kubeskew.cluster.state import Process, State, StateDir, write_secret
from kubeskew.kubelet.drivers import settings, switches
from kubeskew.kubelet.drivers.settings import parse_settings
from kubeskew.kubelet.node.config import NodeLayout

NAMESPACE = "kube-system"
KIND = DRIVER  # of the plugins' processes; a controller's is CONTROLLER


def component(driver: str) -> str:
    return f"{KIND}/{driver}"


def controller_component(driver: str) -> str:
    return f"{CONTROLLER}/{driver}"


def name_of(process: Process) -> str:
    """Names of device plugins have slashes themselves."""
    return process.name.partition("/")[2]


def processes_of(state: State, driver: str) -> list[Process]:
    return [state.processes[name] for name in meant(component(driver), state.processes)]


def is_device_plugin(name: str) -> bool:
    """Resources have a slash, names of drivers have none."""
    return "/" in name


def all_of(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [*dict.fromkeys(name for node in nodes.values() for name in entries(node))]


def entries(node: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Keys are drivers or resources."""
    of_drivers = {entry["name"]: entry for entry in node.get("drivers") or ()}
    return of_drivers | {entry["resource"]: entry for entry in node.get("devicePlugins") or ()}


def controlled(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    having = [[*entries(node).items()] for node in nodes.values()]
    return [*dict.fromkeys(name for node in having for name, entry in node if entry.get("controller"))]


def parameters(nodes: Mapping[str, Mapping[str, Any]], driver: str) -> tuple[str, str] | None:
    """The pair is (group, kind): a driver's controller translates these parameters to semantic parameters."""
    for node in nodes.values():
        found = parse_settings((entries(node).get(driver) or {}).get("controller"))
        if found is not None:
            return found.parameters
    return None


def sync_delay(nodes: Mapping[str, Mapping[str, Any]], driver: str) -> float | None:
    """A driver reacts to changes of its slices by others after these seconds; None if its nodes do not set
    them. All nodes have the same.
    """
    delays = (settings.sync_delay(entries(node).get(driver) or {}) for node in nodes.values())
    return next((delay for delay in delays if delay is not None), None)


def controller_account(driver: str) -> str:
    return f"{CONTROLLER}.{driver}"


def user(account: str) -> str:
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def user_of(process: Process) -> str:
    name = name_of(process)
    return user(controller_account(name) if process.kind == CONTROLLER else name)


def users(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Keys are components: drivers, device plugins and controllers of the nodes in the record."""
    plugins = {component(name): user(name) for name in all_of(nodes)}
    return plugins | {controller_component(n): user(controller_account(n)) for n in controlled(nodes)}


def groups() -> tuple[str, str]:
    return "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"


def write_file(directory: StateDir, state: State, process: Process) -> None:
    driver = name_of(process)
    nodes = [
        _entry(directory, state, node, driver, entry)
        for node, spec in state.nodes.items()
        if (entry := entries(spec).get(driver)) is not None
    ]
    content = {"revision": state.driver_revision, "nodes": nodes}
    write_secret(directory.nodes_file(process.name), json.dumps(content, indent=1))


def reload(directory: StateDir, state: State, processes: Processes) -> None:
    """Drivers share the revision of their files; the record is saved."""
    for process in [*state.of_kind(KIND), *state.of_kind(CONTROLLER)]:
        write_file(directory, state, process)
        processes.send(process.pid, process.birth, signal.SIGHUP)
    directory.save(state)


def _entry(
    directory: StateDir, state: State, node: str, driver: str, entry: Mapping[str, Any]
) -> dict[str, Any]:
    sockets = Path(state.runtime_dir) if state.runtime_dir else None
    layout = NodeLayout.under(directory.kubelet_root(), node, sockets)
    return {
        **entry,
        "name": node,
        "registrarDir": str(layout.registry),
        "pluginsDir": str(layout.plugins),
        "devicePluginsDir": str(layout.device_plugins),
        "cdiDir": str(layout.cdi),
        "dataDir": str(layout.plugin(driver)),
        "nodeDir": str(layout.node),
        "switches": state.switches.get(driver, {}).get(node, {}),
    }


def switch(state: State, driver: str, nodes: Iterable[str], changes: Mapping[str, Any]) -> None:
    """Changes the fault switches of a driver, on some of its nodes or on all. Raises UserError."""
    having = [node for node, spec in state.nodes.items() if driver in entries(spec)]
    chosen = [*nodes] or having
    for node in chosen:
        if node not in having:
            raise UserError(f"node {node} does not have the driver {driver}")
    try:
        switches.parse(changes)
    except switches.SwitchError as error:
        raise UserError(f"driver {driver}: {error}") from error
    of_driver = state.switches.setdefault(driver, {})
    for node in chosen:
        of_driver[node] = switches.merged(of_driver.get(node, {}), changes)
    state.driver_revision += 1
