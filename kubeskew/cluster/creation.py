"""A new cluster: its record, its ports and its credentials; nothing is started."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import drivers, skew
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.planning import Target, check_gates, initial_target
from kubeskew.cluster.ports import HeldPorts, is_free
from kubeskew.cluster.secret_files import write_secrets
from kubeskew.cluster.state import Process, State, StateDir

if TYPE_CHECKING:
    from kubeskew.cluster.pki import KeyPair

MASTERS = "system:masters"
_CONTROL_PLANE = ("system:kube-controller-manager", "system:kube-scheduler")


def create(directory: StateDir, spec: ClusterSpec, ports: HeldPorts, now: datetime) -> State:
    """The record, the ports and the credentials of a new cluster, written into its directory."""
    state = plan(spec, ports)
    write_credentials(directory, state, now)
    directory.database.parent.mkdir(mode=0o700, exist_ok=True)
    directory.save(state)
    return state


def plan(spec: ClusterSpec, ports: HeldPorts) -> State:
    """The record of a cluster as `spec` describes it. Raises UserError if there cannot be such a cluster."""
    state = State(runtime_config=dict(spec.runtime_config))
    servers = ["apiserver"] if spec.servers == 1 else [f"apiserver-{n}" for n in range(1, spec.servers + 1)]
    if spec.port:
        _check_port(spec.port)
    for name in [*servers, "controller-manager", "scheduler"]:
        port = spec.port if spec.port and name == servers[0] else free_port(state, ports)
        _add(state, spec, name, port)
    state.nodes = {node.name: node.as_json() for node in spec.nodes}
    for node in state.nodes:
        host(state, ports, node, initial_target(spec, f"kubelet/{node}"))
    for driver in drivers.all_of(state.nodes):
        _add_driver(state, spec, ports, drivers.component(driver))
    found = skew.violations({n: Version.parse(p.version) for n, p in state.components().items()})
    if found:
        raise UserError(f"unsupported version skew: {'; '.join(found)}")
    return state


def _check_port(port: int) -> None:
    if not is_free(port):
        raise UserError(
            f"port {port} is in use by another process: choose another with --port, "
            "or leave it out for a free one"
        )


def _add(state: State, spec: ClusterSpec, name: str, port: int) -> None:
    target = initial_target(spec, name)
    check_gates(name, target)
    state.processes[name] = Process(
        name, skew.kind_of(name), str(target.version), dict(target.gates), port=port
    )


def _add_driver(state: State, spec: ClusterSpec, ports: HeldPorts, name: str) -> None:
    """Gates are the cluster's, not a driver's."""
    version = str(initial_target(spec, name).version)
    port = free_port(state, ports)
    state.processes[name] = Process(name, skew.kind_of(name), version, {}, port=port)


def host(state: State, ports: HeldPorts, node: str, target: Target) -> Process:
    """Put a node into the kubelet process of its version and gates, recorded anew if there is none."""
    for process in state.of_kind("kubelet"):
        if process.version == str(target.version) and process.gates == dict(target.gates):
            process.nodes = in_order(state, [*process.nodes, node])
            return process
    check_gates(f"kubelet/{node}", target)
    number = next(n for n in range(1, len(state.nodes) + 2) if f"kubelet-{n}" not in state.processes)
    process = Process(
        f"kubelet-{number}", "kubelet", str(target.version), dict(target.gates),
        port=free_port(state, ports), nodes=[node],
    )  # fmt: skip
    state.processes[process.name] = process
    return process


def in_order(state: State, nodes: Iterable[str]) -> list[str]:
    """The nodes as the cluster was described, whatever has been done to them since."""
    wanted = set(nodes)
    return [node for node in state.nodes if node in wanted]


def free_port(state: State, ports: HeldPorts) -> int:
    """A port that neither this cluster nor anybody else has."""
    return ports.choose(process.port for process in state.processes.values())


def write_credentials(directory: StateDir, state: State, now: datetime) -> None:
    """The authority, the serving certificate, and what each component and the administrator identify with."""
    from kubeskew.cluster.pki import (  # cryptography is slow to import
        Authority,
        kubeconfig,
        new_key,
        new_token,
    )
    from kubeskew.kubelet.node.object import host_ip

    authority = Authority.create(now)
    front_proxies = Authority.create(now, "front-proxy-ca")
    ca = authority.pair.certificate
    serving, token = authority.serving(), new_token()
    server = f"https://127.0.0.1:{state.of_kind('apiserver')[0].port}"
    users = {user: authority.client(user) for user in _CONTROL_PLANE}
    for node in state.nodes:
        users[f"system:node:{node}"] = authority.client(f"system:node:{node}", "system:nodes")
    for driver in drivers.all_of(state.nodes):
        users[drivers.user(driver)] = authority.client(drivers.user(driver), *drivers.groups())
    admin = authority.client("kubernetes-admin", MASTERS)
    files: dict[Path, bytes | str] = {
        directory.pki / "ca.key": authority.pair.key,
        directory.ca: ca,
        **_pair(directory.pki / "apiserver", serving),
        **_pair(directory.pki / "kubelet", authority.node_serving(["127.0.0.1", *map(host_ip, state.nodes)])),
        **_pair(
            directory.pki / "apiserver-kubelet-client",
            authority.client("kube-apiserver-kubelet-client", MASTERS),
        ),
        directory.pki / "front-proxy-ca.crt": front_proxies.pair.certificate,
        directory.pki / "front-proxy-ca.key": front_proxies.pair.key,
        **_pair(directory.pki / "front-proxy-client", front_proxies.client("front-proxy-client")),
        directory.account_key: new_key(),
        directory.token: token,
        directory.pki / "tokens.csv": f'{token},kubernetes-admin,admin,"system:masters"\n',
        directory.kubeconfig: kubeconfig(server, ca, "kubernetes-admin", admin),
    }
    for user, pair in users.items():
        files[directory.component_kubeconfig(user)] = kubeconfig(server, ca, user, pair)
    write_secrets(files)


def _pair(path: Path, pair: "KeyPair") -> dict[Path, bytes | str]:
    """`path.crt` and `path.key`."""
    return {
        path.with_name(f"{path.name}.crt"): pair.certificate,
        path.with_name(f"{path.name}.key"): pair.key,
    }
