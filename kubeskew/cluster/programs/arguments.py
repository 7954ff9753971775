"""The command lines of real programs, and the file that tells a shim which to run.

Upstream's flags are those that kubeadm gives its static pods, 1.36, where this cluster has something to give.
Requests go to the shim's proxy, but for those about tokens and rights of whoever reads metrics: a fault in
the way of the component is none in the way of these.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeskew.cluster import drivers
from kubeskew.cluster.clusterfile import CONFIG_FLAG
from kubeskew.cluster.controlplane import addons
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs import kubelets, scheduler_config
from kubeskew.cluster.programs.selection import settings_of
from kubeskew.cluster.server_flags import server_flags
from kubeskew.cluster.state import Process, RunningProgram, State, StateDir, write_secret
from kubeskew.kubelet.node.config import NodeLayout, node_config
from kubeskew.shim import mount_namespace

SHIM = "shim"  # the command, and the kind of process that fork servers know
_LEASES = {
    "scheduler": "kube-system/kube-scheduler",
    "controller-manager": "kube-system/kube-controller-manager",
}
_PROGRAM_HOST = "127.0.0.2"  # of a real API server
_ELECTION = "--leader-elect"
_TRUE = ("", "1", "t", "T", "true", "True", "TRUE")  # as Go reads the value of a switch


def program_file(
    directory: StateDir, state: State, process: Process, program: RunningProgram, kubeconfig: Path
) -> dict[str, Any]:
    """The shim's file. `kubeconfig` is the component's own, for the API servers themselves. Raises UserError
    for a configuration that cannot be read.
    """
    is_kubelet, is_server = process.kind == "kubelet", process.kind == "apiserver"
    certificate = directory.program_certificate(process.name if is_kubelet else process.kind)
    if is_server:  # its shim is the server to clients
        certificate = directory.pki / "apiserver.crt"
    settings = settings_of(state, process.client if is_kubelet else process.name)
    proxied = directory.program_file(process.name).with_suffix(".kubeconfig")
    args = settings.get("args", ())
    config = scheduler_config.read_config(process.name, args) if process.kind == "scheduler" else None
    around = Around(
        *(directory, state, process, program, kubeconfig, proxied, certificate),
        args=args,
        env=settings.get("env", {}),
        config=config,
    )
    return {
        "path": program.path,
        "version": program.version,
        "lease": _lease(process.kind, args, config),
        "health": process.metrics_url("") if program.port else "",
        "kubeconfig": str(proxied),
        "tlsCertFile": str(certificate),
        "tlsPrivateKeyFile": str(certificate.with_suffix(".key")),
        "clientCAFile": str(directory.ca),
        "processes": _PROCESSES[process.kind](around),
        **({"server": _server(directory, state, process)} if is_server else {}),
        **({"node": kubelets.node_section(directory, state, process)} if is_kubelet else {}),
    }


def _server(directory: StateDir, state: State, process: Process) -> dict[str, Any]:
    """The shim's own part in an API server: the log, which the program reaches through etcd's API, the
    Services that lead to processes of the cluster, and the sockets of all. Raises UserError for a cluster
    from before there were front proxies.
    """
    flags = server_flags(directory, state, process)
    if "proxy-client-cert-file" not in flags:
        raise UserError(
            f"{process.name}: an earlier kubeskew made this cluster, without a front proxy's "
            "certificate, which a real API server's shim needs: make it anew"
        )
    return {
        "storage": directory.storage_url,
        "etcdSocket": str(directory.etcd_socket(state, process.name)),
        "timelineSocket": str(directory.timeline_sockets(state) / process.name),
        "egressSocket": str(directory.egress_socket(state, process.name)),
        "egressConfig": str(_egress_config(directory, process)),
        "auditPolicy": str(_audit_policy(directory, process)),
        "auditConfig": str(_audit_config(directory, process)),
        "network": state.network_socket,
        "services": addons.local_services(state),
        "port": process.port,
        "sharedPort": state.shared_port,
        "programAddress": f"{_PROGRAM_HOST}:{process.port}",
        "tokenAuthFile": flags["token-auth-file"],
        "requestheaderClientCAFile": flags["requestheader-client-ca-file"],
        "proxyClientCertFile": flags["proxy-client-cert-file"],
        "proxyClientKeyFile": flags["proxy-client-key-file"],
    }


def _audit_policy(directory: StateDir, process: Process) -> Path:
    return directory.program_file(process.name).with_suffix(".audit-policy.json")


def _audit_config(directory: StateDir, process: Process) -> Path:
    return directory.program_file(process.name).with_suffix(".audit.kubeconfig")


def _egress_config(directory: StateDir, process: Process) -> Path:
    return directory.program_file(process.name).with_suffix(".egress.json")


@dataclass(frozen=True, slots=True)
class Around:
    """A program with what its arguments name."""

    directory: StateDir
    state: State
    process: Process
    program: RunningProgram
    kubeconfig: Path
    proxied: Path
    certificate: Path
    args: Sequence[str]
    env: Mapping[str, str]
    config: Mapping[str, Any] | None  # of a scheduler whose arguments name one

    def common(self) -> list[str]:
        """Flags of schedulers and controller managers; later ones count, so that the user's stand last."""
        return [
            f"--kubeconfig={self.proxied}",
            f"--authentication-kubeconfig={self.kubeconfig}",
            f"--authorization-kubeconfig={self.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.program.port}",
            f"--tls-cert-file={self.certificate}",
            f"--tls-private-key-file={self.certificate.with_suffix('.key')}",
            f"--client-ca-file={self.directory.ca}",
            *self.settings(),
        ]

    def settings(self) -> list[str]:
        gates, verbosity = self.process.feature_gates.flag(), self.state.verbosity
        return [
            *((f"--feature-gates={gates}",) if gates else ()),
            *((f"--v={verbosity}",) if verbosity else ()),
        ]


def _lease(kind: str, args: Sequence[str], config: Mapping[str, Any] | None) -> str:
    """Empty for a program that elects no leader. Arguments take precedence over a configuration."""
    if kind not in _LEASES:
        return ""
    namespace, name = _LEASES[kind].split("/")
    election = scheduler_config.section(config or {}, "leaderElection")
    elects = election.get("leaderElect", True) is not False
    namespace = election.get("resourceNamespace") or namespace
    name = election.get("resourceName") or name
    for flag, value in _with_values(args):
        if flag == _ELECTION:
            elects = value in _TRUE
        elif flag == f"{_ELECTION}-resource-name":
            name = value
        elif flag == f"{_ELECTION}-resource-namespace":
            namespace = value
    return f"{namespace}/{name}" if elects else ""


def _with_values(args: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields flags with their values, which may be the next argument unless a flag is a switch."""
    for place, argument in enumerate(args):
        flag, equals, value = argument.partition("=")
        yield flag, value if equals or flag == _ELECTION else "".join(args[place + 1 : place + 2])


def _apiserver(around: Around) -> list[dict[str, Any]]:
    """Upstream has NodeRestriction off by default; kubeadm turns it on, as our own API server does. Endpoints
    cannot have a loopback address, so that nobody keeps those of the Service `kubernetes`. The program does
    not compact the log.
    """
    from kubeskew.apiserver.serviceaccount import ISSUER

    flags = {
        **server_flags(around.directory, around.state, around.process),
        "bind-address": _PROGRAM_HOST,  # at the cluster's address its shim listens
        "secure-port": str(around.process.port),
        "advertise-address": "127.0.0.1",
        "endpoint-reconciler-type": "none",
        "service-account-key-file": str(around.directory.account_public_key),
        "service-account-issuer": ISSUER,
        **({} if _names(around.args, "--authorization-config") else {"authorization-mode": "Node,RBAC"}),
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "kubelet-preferred-address-types": "InternalIP",
        "etcd-servers": f"unix://{around.directory.etcd_socket(around.state, around.process.name)}",
        "storage-media-type": "application/json",
        "etcd-compaction-interval": "0",  # the log keeps its history
        "egress-selector-config-file": str(_egress_config(around.directory, around.process)),
        "audit-policy-file": str(_audit_policy(around.directory, around.process)),
        "audit-webhook-config-file": str(_audit_config(around.directory, around.process)),
        "audit-webhook-batch-max-wait": "200ms",
        "audit-webhook-batch-throttle-enable": "false",
    }
    args = [f"--{flag}={value}" for flag, value in flags.items()]
    return [{"name": "", "args": [*args, *around.settings(), *around.args], "env": dict(around.env)}]


def _names(args: Sequence[str], flag: str) -> bool:
    return any(name == flag for name, _ in _with_values(args))


def _scheduler(around: Around) -> list[dict[str, Any]]:
    own = [*around.args]
    if around.config is not None:
        own = [argument for argument in own if not argument.startswith(f"{CONFIG_FLAG}=")]
        own.append(f"{CONFIG_FLAG}={_own_config(around, around.config)}")
    return [{"name": "", "args": [*around.common(), *own], "env": dict(around.env)}]


def _own_config(around: Around, config: Mapping[str, Any]) -> Path:
    """A scheduler that is given a configuration takes its kubeconfig from there alone: a copy names it."""
    connection = {**scheduler_config.section(config, "clientConnection"), "kubeconfig": str(around.proxied)}
    copy = around.proxied.with_suffix(".config.yaml")
    write_secret(copy, yaml.safe_dump({**config, "clientConnection": connection}))
    return copy


def _controller_manager(around: Around) -> list[dict[str, Any]]:
    directory = around.directory
    args = [
        *around.common(),
        "--use-service-account-credentials=true",
        f"--root-ca-file={directory.ca}",
        f"--cluster-signing-cert-file={directory.ca}",
        f"--cluster-signing-key-file={directory.pki / 'ca.key'}",
        f"--service-account-private-key-file={directory.account_key}",
        *around.args,
    ]
    return [{"name": "", "args": args, "env": dict(around.env)}]


def _kubelet(around: Around) -> list[dict[str, Any]]:
    """In a mount namespace of its own, which a wrapper makes."""
    process = around.process
    config = kubelets.write_configuration(
        around.directory, around.state, process, around.program, around.certificate
    )
    node = node_config(around.state.node_spec(process.nodes[0]).as_json())
    layout = kubelets.layout_of(around.directory, around.state, node.name)
    args = [*kubelets.arguments(node, config, around.proxied), *around.settings(), *around.args]
    machine = kubelets.write_machine(layout, node)
    wrapper = mount_namespace.command(layout.kubelet, layout.node / "log", machine)
    return [{"name": "", "wrapper": wrapper, "args": args, "env": dict(around.env)}]


def _driver(around: Around) -> list[dict[str, Any]]:
    """One process for each node. The variables are those of kubernetes-sigs' example driver."""
    state, name = around.state, drivers.name_of(around.process)
    sockets = Path(state.runtime_dir) if state.runtime_dir else None
    processes = []
    for node, spec in state.nodes.items():
        if name not in drivers.entries(spec):
            continue
        layout = NodeLayout.under(around.directory.kubelet_root(), node, sockets)
        layout.make()
        (layout.plugins / name).mkdir(mode=0o700, exist_ok=True)  # in a pod a hostPath, DirectoryOrCreate
        values = {
            "node": node,
            "driver": name,
            "kubeconfig": str(around.proxied),
            "registrarDir": str(layout.registry),
            "pluginsDir": str(layout.plugins),
            "devicePluginsDir": str(layout.device_plugins),
            "cdiDir": str(layout.cdi),
            "dataDir": str(layout.plugins / name),
        }
        variables = {
            "KUBECONFIG": values["kubeconfig"],
            "NODE_NAME": node,
            "DRIVER_NAME": name,
            "CDI_ROOT": values["cdiDir"],
            "KUBELET_REGISTRAR_DIRECTORY_PATH": values["registrarDir"],
            "KUBELET_PLUGINS_DIRECTORY_PATH": values["pluginsDir"],
        }
        processes.append(
            {
                "name": node,
                "args": [_filled(argument, values) for argument in around.args],
                "env": {**variables, **{key: _filled(text, values) for key, text in around.env.items()}},
            }
        )
    return processes


def _filled(text: str, values: Mapping[str, str]) -> str:
    """Other braces stay, as in JSON."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


_PROCESSES: Mapping[str, Callable[[Around], list[dict[str, Any]]]] = {
    "apiserver": _apiserver,
    "scheduler": _scheduler,
    "controller-manager": _controller_manager,
    "kubelet": _kubelet,
    drivers.KIND: _driver,
}
