"""Runs the drivers of the local cluster: one process per driver, on all nodes that have it; device plugins
too.

A device plugin goes by its resource, which has a slash, as no driver's name has. The controller of a driver
that has one is a process of its own, with an account of its own.

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
    """Returns the component of a driver."""
    return f"{KIND}/{driver}"


def controller_component(driver: str) -> str:
    """Returns the component of a driver's controller."""
    return f"{CONTROLLER}/{driver}"


def name_of(process: Process) -> str:
    """Returns the driver of a process; a name may have slashes itself."""
    return process.name.partition("/")[2]


def processes_of(state: State, driver: str) -> list[Process]:
    """Returns the processes of a driver: its plugins', and its controller's if it has one."""
    return [state.processes[name] for name in meant(component(driver), state.processes)]


def is_device_plugin(name: str) -> bool:
    """Returns whether the name is a resource."""
    return "/" in name


def all_of(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the drivers and device plugins that nodes of the record have."""
    return [*dict.fromkeys(name for node in nodes.values() for name in entries(node))]


def entries(node: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Returns the drivers of a node of the record: driver or resource → its entry."""
    of_drivers = {entry["name"]: entry for entry in node.get("drivers") or ()}
    return of_drivers | {entry["resource"]: entry for entry in node.get("devicePlugins") or ()}


def controlled(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Returns the drivers whose entry on some node of the record asks for a controller."""
    having = [[*entries(node).items()] for node in nodes.values()]
    return [*dict.fromkeys(name for node in having for name, entry in node if entry.get("controller"))]


def parameters(nodes: Mapping[str, Mapping[str, Any]], driver: str) -> tuple[str, str] | None:
    """Returns group and kind of the parameters that a driver's controller makes semantic parameters of."""
    for node in nodes.values():
        found = parse_settings((entries(node).get(driver) or {}).get("controller"))
        if found is not None:
            return found.parameters
    return None


def sync_delay(nodes: Mapping[str, Mapping[str, Any]], driver: str) -> float | None:
    """Returns the seconds after which a driver looks at what others did to its slices, if its nodes say so:
    all say the same."""
    delays = (settings.sync_delay(entries(node).get(driver) or {}) for node in nodes.values())
    return next((delay for delay in delays if delay is not None), None)


def controller_account(driver: str) -> str:
    """Returns the service account of a driver's controller."""
    return f"{CONTROLLER}.{driver}"


def user(account: str) -> str:
    """Returns the user name of an account: a driver's is its name."""
    return f"system:serviceaccount:{NAMESPACE}:{account}"


def user_of(process: Process) -> str:
    """Returns the user name of a driver's process."""
    name = name_of(process)
    return user(controller_account(name) if process.kind == CONTROLLER else name)


def users(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Returns the user names of all drivers, device plugins and controllers that nodes of the record have:
    component → user."""
    plugins = {component(name): user(name) for name in all_of(nodes)}
    return plugins | {controller_component(n): user(controller_account(n)) for n in controlled(nodes)}


def groups() -> tuple[str, str]:
    return "system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}"


def write_file(directory: StateDir, state: State, process: Process) -> None:
    """Tells a driver's process on which nodes it is, with which devices and switches."""
    driver = name_of(process)
    nodes = [
        _entry(directory, state, node, driver, entry)
        for node, spec in state.nodes.items()
        if (entry := entries(spec).get(driver)) is not None
    ]
    content = {"revision": state.driver_revision, "nodes": nodes}
    write_secret(directory.nodes_file(process.name), json.dumps(content, indent=1))


def tell(directory: StateDir, state: State, processes: Processes) -> None:
    """Has all drivers read their files again, which share a revision; the record is saved."""
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
    """Changes what goes wrong in a driver, on some of its nodes or on all. Raises UserError."""
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
