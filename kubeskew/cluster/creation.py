"""The creation of a cluster: its record, ports, log and credentials; nothing is started.

Credentials are an authority, and a certificate or token for each component.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kubeskew.apimachinery.clock import Clock
from kubeskew.apimachinery.durable_files import make_directory
from kubeskew.apimachinery.known_names import METRICS_SERVER, NETWORK, kind_of
from kubeskew.apimachinery.versions import Version
from kubeskew.apiserver.storage.factory import Storage
from kubeskew.apiserver.storage.interfaces import StorageError
from kubeskew.cluster import drivers, skew
from kubeskew.cluster.change_plan import Target, check_gates, initial_server, initial_target, initial_workers
from kubeskew.cluster.clusterfile import ANY_SERVER, REAL
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.controlplane import addons
from kubeskew.cluster.failures import ClusterError, UserError
from kubeskew.cluster.ports import Ports
from kubeskew.cluster.programs.inspection import Inspect, Program
from kubeskew.cluster.programs.inspection import inspect as inspect_program
from kubeskew.cluster.programs.kubelets import machine_address
from kubeskew.cluster.programs.selection import (
    EMULATED,
    Choice,
    check_folder,
    check_settings,
    choose,
)
from kubeskew.cluster.state import Process, RunningProgram, State, StateDir, write_secret, write_secrets

if TYPE_CHECKING:
    from kubeskew.cluster.pki import KeyPair, Keys

MASTERS = "system:masters"
NETWORK_USER = "system:kube-proxy"  # whose work it does; its rights are in controlplane/network.yaml
_CONTROL_PLANE = ("controller-manager", "scheduler")
Credentials = Callable[[StateDir, State, datetime], None]


def write_credentials(directory: StateDir, state: State, now: datetime, keys: "Keys | None" = None) -> None:
    """Writes the authority, the serving certificate, and the credentials of components and administrator."""
    from kubeskew.cluster.pki import (  # cryptography is slow to import
        Authority,
        RandomKeys,
        kubeconfig,
        new_key,
    )
    from kubeskew.kubelet.node.object import host_ip

    keys = keys if keys is not None else RandomKeys()
    authority = Authority.create(now, keys=keys)
    front_proxies = Authority.create(now, "front-proxy-ca", keys)
    ca = authority.pair.certificate
    serving, token = authority.serving(), keys.token()
    servers = {process.name: process.url("") for process in state.of_kind("apiserver")}
    users: dict[str, tuple[str, tuple[str, ...]]]
    users = {name: (f"system:kube-{name}", ()) for name in _CONTROL_PLANE}
    users |= {f"kubelet/{node}": (f"system:node:{node}", ("system:nodes",)) for node in state.nodes}
    users |= {name: (user, drivers.groups()) for name, user in drivers.users(state.nodes).items()}
    if NETWORK in state.processes:
        users[NETWORK] = NETWORK_USER, ()
    serves_metrics = METRICS_SERVER in state.processes
    if serves_metrics:
        users[METRICS_SERVER] = addons.METRICS_SERVER_USER, drivers.groups()
    pairs = {name: authority.client(user, *groups) for name, (user, groups) in users.items()}
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
        directory.account_key: new_key(keys),
        directory.token: token,
        directory.pki / "tokens.csv": f'{token},kubernetes-admin,admin,"system:masters"\n',
        directory.kubeconfig: kubeconfig(
            *(state.server, ca, "kubernetes-admin", admin),
            contexts={ANY_SERVER: state.server, **servers} if state.shared_port else None,
        ),
    }
    for name, (user, _) in users.items():
        files |= _kubeconfig(directory, state, ca, name, user, pairs[name])
    if serves_metrics:
        files |= _pair(
            directory.pki / METRICS_SERVER, authority.service_serving(METRICS_SERVER, "kube-system")
        )
    write_secrets(files)


def add_controller_credentials(
    directory: StateDir, state: State, now: datetime, names: Collection[str]
) -> None:
    """Writes credentials of drivers' controllers that are added to an existing cluster."""
    from kubeskew.cluster.pki import Authority, KeyPair, RandomKeys

    ca = directory.ca.read_bytes()
    authority = Authority(KeyPair(ca, (directory.pki / "ca.key").read_bytes()), now, RandomKeys())
    files: dict[Path, bytes | str] = {}
    for name, user in drivers.users(state.nodes).items():
        if name in names:
            pair = authority.client(user, *drivers.groups())
            files |= _kubeconfig(directory, state, ca, name, user, pair)
    write_secrets(files)


def add_program_credentials(directory: StateDir, process: Process, now: datetime) -> None:
    """Writes the serving certificate of a real program and of its proxy, unless there is one. A real API
    server has the cluster's; it needs the public key of tokens in a file of its own.
    """
    is_server, is_kubelet = process.kind == "apiserver", process.kind == "kubelet"
    pair = directory.program_certificate(process.name if is_kubelet else process.kind)
    if not is_kubelet and (directory.account_public_key if is_server else pair).exists():
        return
    from kubeskew.cluster.pki import Authority, KeyPair, RandomKeys, public_key

    if is_server:
        write_secret(directory.account_public_key, public_key(directory.account_key.read_bytes()))
        return

    ca = directory.ca.read_bytes()
    authority = Authority(KeyPair(ca, (directory.pki / "ca.key").read_bytes()), now, RandomKeys())
    if is_kubelet:  # the address may be another than at the last start
        address = machine_address()
        serving = authority.node_serving(["127.0.0.1", *((address,) if address else ())])
    else:
        serving = authority.loopback_serving(process.kind)
    write_secrets(_pair(pair.with_suffix(""), serving))


def _kubeconfig(
    directory: StateDir, state: State, ca: bytes, component: str, user: str, pair: "KeyPair"
) -> dict[Path, bytes | str]:
    from kubeskew.cluster.pki import kubeconfig

    first, *others = [server.url("") for server in state.servers_of(component)]
    return {directory.component_kubeconfig(user): kubeconfig(first, ca, user, pair, others=others)}


def _pair(path: Path, pair: "KeyPair") -> dict[Path, bytes | str]:
    return {
        path.with_name(f"{path.name}.crt"): pair.certificate,
        path.with_name(f"{path.name}.key"): pair.key,
    }


def create(
    directory: StateDir,
    spec: ClusterSpec,
    ports: Ports,
    now: datetime,
    credentials: Credentials,
    inspect: Inspect = inspect_program,
    *,
    force: bool = False,
) -> State:
    """Writes the record and the credentials of a new cluster into its directory."""
    state = plan(spec, ports, inspect, force=force)
    credentials(directory, state, now)
    make_directory(directory.database.parent)
    if spec.storage:
        write_secret(directory.storage_file, spec.storage)
    directory.save(state)
    return state


def plan(
    spec: ClusterSpec, ports: Ports, inspect: Inspect = inspect_program, *, force: bool = False
) -> State:
    """Raises UserError if a cluster like `spec` is impossible. With `force`, real programs may be of another
    minor than their components.
    """
    state = State(
        runtime_config=dict(spec.runtime_config),
        verbosity=spec.verbosity,
        time=spec.time,
        binaries=spec.binaries,
        real=[*spec.real],
        programs=spec.programs,
        containers=dict(spec.containers),
    )
    check_folder(state.binaries, state.real)
    check_settings(state)
    adding = Adding(state, spec, ports, inspect, force)
    servers = spec.server_names
    if spec.port:
        _check_port(spec.port, ports)
    alone = len(servers) == 1
    if not alone:
        state.shared_port = spec.port
    for name in [*servers, "controller-manager", "scheduler"]:
        port = spec.port if spec.port and alone and name == servers[0] else free_port(state, ports)
        adding.versioned(name, port)
    state.nodes = {node.name: node.as_json() for node in spec.nodes}
    state.servers = {name: server for name in _clients(state) if (server := initial_server(spec, name))}
    for node in state.nodes:
        adding.node(node)
    for driver in drivers.all_of(state.nodes):
        name = drivers.component(driver)
        adding.unversioned(name)
    for driver in drivers.controlled(state.nodes):
        name = drivers.controller_component(driver)
        adding.unversioned(name)
    if spec.metrics_server:
        adding.unversioned(METRICS_SERVER)
    if spec.has_network:
        adding.unversioned(NETWORK)
    if not alone and not state.shared_port:
        state.shared_port = free_port(state, ports)
    found = skew.violations({n: Version.parse(p.version) for n, p in state.components().items()})
    if found:
        raise UserError(f"unsupported version skew: {'; '.join(found)}")
    return state


def _clients(state: State) -> list[str]:
    drivers_of_nodes = map(drivers.component, drivers.all_of(state.nodes))
    controllers = map(drivers.controller_component, drivers.controlled(state.nodes))
    kubelets = (f"kubelet/{node}" for node in state.nodes)
    return [
        *("controller-manager", "scheduler"), *kubelets, *drivers_of_nodes, *controllers, METRICS_SERVER,
        NETWORK,
    ]  # fmt: skip


def _check_port(port: int, ports: Ports) -> None:
    if not ports.is_free(port):
        raise UserError(
            f"port {port} is in use by another process: choose another with --port, "
            "or leave it out for a free one"
        )


@dataclass(frozen=True, slots=True)
class Adding:
    """Adds processes to the record of a new cluster."""

    state: State
    spec: ClusterSpec
    ports: Ports
    inspect: Inspect
    force: bool

    def versioned(self, name: str, port: int) -> None:
        """Raises UserError for gates that the component does not know."""
        target = initial_target(self.spec, name)
        process = Process(
            name,
            kind_of(name),
            str(target.version),
            dict(target.gates),
            port=port,
            bugs=dict(target.bugs),
            workers=initial_workers(self.spec, name),
        )
        check_gates(name, target, self._give_program(process, target))
        self.state.processes[name] = process

    def unversioned(self, name: str) -> None:
        process = _unversioned(self.state, self.ports, name, initial_target(self.spec, name))
        self._give_program(process, initial_target(self.spec, name))
        self.state.processes[name] = process

    def node(self, name: str) -> None:
        """Raises UserError for gates that its kubelet does not know."""
        target = initial_target(self.spec, f"kubelet/{name}")
        host(self.state, self.ports, name, target, self._choice(f"kubelet/{name}", target))

    def _give_program(self, process: Process, target: Target) -> Program | None:
        """The real program that the process is to run; None if it is emulated."""
        choice = self._choice(process.name, target)
        give_program(self.state, process, choice, self.ports)
        return choice.program

    def _choice(self, name: str, target: Target) -> Choice:
        return choose(self.state, name, target.version, target.bugs, self.inspect, force=self.force)


def give_program(state: State, process: Process, choice: Choice, ports: Ports) -> None:
    """Records the real program that a process runs from its next start on, or that it runs none."""
    if choice.program is None:
        process.program = None
        return
    served = process.kind in REAL
    port = process.program.port if process.program is not None else 0
    process.program = RunningProgram(
        str(choice.program.path),
        choice.program.version,
        (port or free_port(state, ports)) if served else 0,
        choice.forced,
    )


def _unversioned(state: State, ports: Ports, name: str, target: Target) -> Process:
    """A process without gates, because gates are the cluster's; the bugs of its libraries are its own."""
    return Process(
        name, kind_of(name), str(target.version), {}, port=free_port(state, ports), bugs=dict(target.bugs)
    )


def add_controllers(state: State, ports: Ports) -> list[str]:
    """Records the controllers that drivers of an older record lack, with their plugins' libraries and known
    bugs. Controllers once were no processes of their own.
    """
    names = {driver: drivers.controller_component(driver) for driver in drivers.controlled(state.nodes)}
    missing = {driver: name for driver, name in names.items() if name not in state.processes}
    for driver, name in missing.items():
        target = Target.of(state.processes[drivers.component(driver)])
        state.processes[name] = _unversioned(state, ports, name, target)
    return [*missing.values()]


def host(state: State, ports: Ports, node: str, target: Target, choice: Choice = EMULATED) -> Process:
    """Adds a node to the emulated kubelet process of its version and gates; a new process is recorded if
    there is none. A real kubelet has one node.
    """
    emulated = [process for process in state.of_kind("kubelet") if process.program is None]
    for process in emulated if choice.program is None else ():
        if target.is_met(process) and state.servers.get(process.client) == state.servers.get(
            f"kubelet/{node}"
        ):
            process.nodes = in_order(state, [*process.nodes, node])
            return process
    check_gates(f"kubelet/{node}", target, choice.program)
    number = next(n for n in range(1, len(state.nodes) + 2) if f"kubelet-{n}" not in state.processes)
    process = Process(
        f"kubelet-{number}", "kubelet", str(target.version), dict(target.gates), bugs=dict(target.bugs),
        port=free_port(state, ports), nodes=[node],
    )  # fmt: skip
    give_program(state, process, choice, ports)
    state.processes[process.name] = process
    return process


def in_order(state: State, nodes: Iterable[str]) -> list[str]:
    """Sorts nodes by their order in the cluster's description."""
    wanted = set(nodes)
    return [node for node in state.nodes if node in wanted]


def free_port(state: State, ports: Ports) -> int:
    return ports.choose(state.ports())


def check_ports(state: State, starting: Sequence[Process], ports: Ports) -> None:
    """Processes that start get another port if theirs is in use. Raises ClusterError for ports of API
    servers, which clients know.
    """
    servers = state.of_kind("apiserver")
    if state.shared_port and all(server in starting for server in servers):
        _check_server_port("the API servers", f"their port {state.shared_port}", state.shared_port, ports)
    for process in starting:
        if process.kind == "apiserver":
            _check_server_port(process.name, f"its port {process.port}", process.port, ports)
        elif process.port and not ports.is_free(process.port):
            process.port = free_port(state, ports)
        program = process.program
        if program is not None and program.port and not ports.is_free(program.port):
            process.program = replace(program, port=free_port(state, ports))


def _check_server_port(name: str, called: str, port: int, ports: Ports) -> None:
    if not ports.is_free(port):
        raise ClusterError(
            f"{name} cannot start: another process listens on {called}. End that one and try again"
        )


async def claim_log(storage: Storage, clock: Clock, url: str) -> None:
    """Creates the log of a new cluster in a database. Raises UserError if that fails."""
    try:
        await storage.claim(url, clock)
    except StorageError as error:
        raise UserError(f"--storage: {error}") from error


async def check_log(storage: Storage, clock: Clock, directory: StateDir) -> None:
    """Raises ClusterError if the log of an existing cluster cannot be opened."""
    if not directory.storage_file.exists():
        return
    try:
        log = await storage.log(directory.storage_url, clock)
    except StorageError as error:
        raise ClusterError(f"cannot start without the log: {error}") from error
    await log.close()


async def remove_logs(storage: Storage, directory: StateDir) -> None:
    """Raises ClusterError if the log of a purged cluster cannot be removed."""
    for url in directory.databases():
        try:
            await storage.remove(url)
        except StorageError as error:
            raise ClusterError(
                f"cannot remove the log: {error}. Try again when it can be had; or remove "
                f"{directory.path} by hand and leave the log"
            ) from error
