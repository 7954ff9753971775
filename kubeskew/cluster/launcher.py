"""The start of each process of the cluster: its arguments, its files, its environment."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.known_bugs import bugs_flag
from kubeskew.apimachinery.known_names import CONTROLLER, METRICS_SERVER, NETWORK
from kubeskew.apimachinery.periods import QUICK
from kubeskew.apimachinery.process.network_agent import pod_cidr
from kubeskew.cluster import drivers
from kubeskew.cluster.controlplane import addons, static_pods
from kubeskew.cluster.creation import NETWORK_USER
from kubeskew.cluster.processes import NO_AUTHORITIES, Processes, environment
from kubeskew.cluster.programs import kubelets
from kubeskew.cluster.programs.arguments import SHIM, program_file
from kubeskew.cluster.server_flags import server_flags
from kubeskew.cluster.state import Process, State, StateDir, write_secret

_USERS = {
    "scheduler": "system:kube-scheduler",
    "controller-manager": "system:kube-controller-manager",
    METRICS_SERVER: addons.METRICS_SERVER_USER,
    NETWORK: NETWORK_USER,
}
Builder = Callable[[StateDir, State, Process], list[str]]


async def start(directory: StateDir, state: State, process: Process, processes: Processes) -> None:
    """Starts `process` as it is recorded, and sets its pid. The caller saves the record."""
    if process.kind == "kubelet" and process.program is None:
        write_nodes_file(directory, state, process)
    elif process.kind in {drivers.KIND, CONTROLLER}:
        drivers.write_file(directory, state, process)
    directory.faults.mkdir(mode=0o700, exist_ok=True)
    if process.program is not None:
        content = shim_file(directory, state, process)
        write_secret(directory.program_file(process.name), json.dumps(content, indent=1))
    process.pid, process.birth = await processes.start(
        arguments(directory, state, process), directory.log(process.name), environment(os.environ)
    )
    process.wanted = True


def arguments(directory: StateDir, state: State, process: Process) -> list[str]:
    """Without the program `kubeskew`. A real program has a shim in front of it."""
    if process.program is not None:
        return _shim(directory, state, process)
    return _ARGUMENTS[process.kind](directory, state, process)


def write_nodes_file(directory: StateDir, state: State, process: Process) -> None:
    """A real kubelet has its static pods in files instead, which it looks at again by itself."""
    if process.program is not None:
        kubelets.write_static_pods(directory, state, process)
        return
    nodes = []
    for name in process.nodes:
        entry = kubelets.node_entry(state, name)
        del entry["drivers"], entry["devicePlugins"]  # processes of their own
        entry["kubeconfig"] = str(directory.component_kubeconfig(f"system:node:{name}"))
        if entry.pop("controlPlane", False):
            entry["staticPods"] = static_pods.manifests(state)
        if state.network_socket:
            entry["network"] = state.network_socket
            entry["podCIDR"] = pod_cidr([*state.nodes].index(name))
        if name in state.killed_nodes:
            entry["killed"] = True
        nodes.append(entry)
    write_secret(directory.nodes_file(process.name), json.dumps({"nodes": nodes}, indent=1))


def _common(directory: StateDir, state: State, process: Process) -> list[str]:
    gates, bugs = process.feature_gates.flag(), bugs_flag(process.bugs)
    return [
        *("--emulated-version", process.version),
        *(("--feature-gates", gates) if gates else ()),
        *(("--bugs", bugs) if bugs else ()),
        *("--secure-port", str(process.shim_port)),
        *("--faults-dir", str(directory.faults)),
        *(("--time", state.time) if state.time != QUICK else ()),
        *(("--v", str(state.verbosity)) if state.verbosity else ()),
    ]


def _apiserver(directory: StateDir, state: State, process: Process) -> list[str]:
    flags = server_flags(directory, state, process)
    return [
        "apiserver",
        *("--name", process.name),
        *_storage(directory),
        *(part for flag, value in flags.items() for part in (f"--{flag}", value)),
        *(("--shared-port", str(state.shared_port)) if state.shared_port else ()),
        *_services(addons.local_services(state)),
        *("--workers", process.workers or "1"),
        *(("--network-agent", state.network_socket) if state.network_socket else ()),
        *_common(directory, state, process),
    ]


def _services(local: Mapping[str, str]) -> list[str]:
    return [part for name, at in local.items() for part in ("--webhook-service-map", f"{name}={at}")]


def _storage(directory: StateDir) -> list[str]:
    """URLs with a password go into a file, because everybody can list processes."""
    if directory.storage_file.exists():
        return ["--storage-url-file", str(directory.storage_file)]
    return ["--storage-url", directory.storage_url]


def _kubelet_server(directory: StateDir) -> list[str]:
    if not (directory.pki / "kubelet.crt").exists():
        return []
    return [
        *("--tls-cert-file", str(directory.pki / "kubelet.crt")),
        *("--tls-private-key-file", str(directory.pki / "kubelet.key")),
        *("--client-ca-file", str(directory.ca)),
    ]


def _scheduler(directory: StateDir, state: State, process: Process) -> list[str]:
    return _with_kubeconfig(_USERS["scheduler"], directory, state, process)


def _controller_manager(directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        *_with_kubeconfig(_USERS["controller-manager"], directory, state, process),
        "--use-service-account-credentials",
        *("--cluster-signing-cert-file", str(directory.ca)),
        *("--cluster-signing-key-file", str(directory.pki / "ca.key")),
        *("--service-account-private-key-file", str(directory.account_key)),
    ]


def _with_kubeconfig(user: str, directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        process.kind,
        "--kubeconfig",
        str(directory.component_kubeconfig(user)),
        *_of_client(directory, state, process),
    ]


def _of_client(directory: StateDir, state: State, process: Process) -> list[str]:
    """Flags of all components but API servers."""
    sockets = str(directory.timeline_sockets(state)) if state.runtime_dir else ""
    return [*_common(directory, state, process), *(("--timeline-dir", sockets) if sockets else ())]


def _kubelet(directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        "kubelet",
        *("--kubeconfig", str(directory.component_kubeconfig(f"system:node:{process.nodes[0]}"))),
        *("--nodes-file", str(directory.nodes_file(process.name))),
        *("--root-dir", str(directory.kubelet_root())),
        *(("--runtime-dir", state.runtime_dir) if state.runtime_dir else ()),
        *_kubelet_server(directory),
        *_of_client(directory, state, process),
    ]


def _driver(directory: StateDir, state: State, process: Process) -> list[str]:
    name = drivers.name_of(process)
    delay = drivers.sync_delay(state.nodes, name)
    return [
        "driver",
        *("--device-plugin" if drivers.is_device_plugin(name) else "--driver-name", name),
        *(("--sync-delay", str(delay)) if delay is not None else ()),
        *_driver_files(directory, process),
        *_of_client(directory, state, process),
    ]


def _driver_controller(directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        "driver-controller",
        *("--driver-name", drivers.name_of(process)),
        *_driver_files(directory, process),
        *_of_client(directory, state, process),
    ]


def _metrics_server(directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        *_with_kubeconfig(_USERS[METRICS_SERVER], directory, state, process),
        *("--api-address", addons.METRICS_API_ADDRESS),
        *("--tls-cert-file", str(directory.pki / "metrics-server.crt")),
        *("--tls-private-key-file", str(directory.pki / "metrics-server.key")),
    ]


def _network(directory: StateDir, state: State, process: Process) -> list[str]:
    outside = addons.local_services(state)
    return [
        *_with_kubeconfig(NETWORK_USER, directory, state, process),
        *("--socket", state.network_socket),
        *(part for name, at in outside.items() for part in ("--outside", f"{name}={at}")),
    ]


def _shim(directory: StateDir, state: State, process: Process) -> list[str]:
    return [
        SHIM,
        *("--component", process.client if process.kind == "kubelet" else process.name),
        *("--kubeconfig", str(_kubeconfig_of(directory, process))),
        *("--program-file", str(directory.program_file(process.name))),
        *_of_client(directory, state, process),
    ]


def shim_file(directory: StateDir, state: State, process: Process) -> dict[str, Any]:
    """The content of the file that says what a shim is to run. Raises UserError for a configuration that
    cannot be read.
    """
    if process.program is None:
        raise ValueError(f"{process.name} is emulated")
    content = program_file(directory, state, process, process.program, _kubeconfig_of(directory, process))
    kept = {name: os.environ[name] for name in NO_AUTHORITIES if name in os.environ}  # else they are emptied
    for program in content["processes"]:
        program["env"] = {**kept, **program["env"]}
    return content


def _kubeconfig_of(directory: StateDir, process: Process) -> Path:
    if process.kind == "apiserver":
        return directory.kubeconfig
    if process.kind == "kubelet":
        return directory.component_kubeconfig(f"system:node:{process.nodes[0]}")
    user = _USERS.get(process.kind)
    return directory.component_kubeconfig(user if user is not None else drivers.user_of(process))


def _driver_files(directory: StateDir, process: Process) -> list[str]:
    return [
        *("--kubeconfig", str(directory.component_kubeconfig(drivers.user_of(process)))),
        *("--driver-file", str(directory.nodes_file(process.name))),
    ]


_ARGUMENTS: dict[str, Builder] = {
    "apiserver": _apiserver,
    "controller-manager": _controller_manager,
    "scheduler": _scheduler,
    "kubelet": _kubelet,
    drivers.KIND: _driver,
    CONTROLLER: _driver_controller,
    METRICS_SERVER: _metrics_server,
    NETWORK: _network,
}
