"""Writes the credentials of a cluster: its authority, and what each component identifies with."""

from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from kubeskew.apimachinery.component_names import METRICS_SERVER
from kubeskew.cluster import drivers
from kubeskew.cluster.clusterfile.keys import ANY_SERVER
from kubeskew.cluster.controlplane import metrics_server
from kubeskew.cluster.secret_files import write_secrets
from kubeskew.cluster.state import State, StateDir

if TYPE_CHECKING:
    from kubeskew.cluster.pki import KeyPair, Keys

MASTERS = "system:masters"
_CONTROL_PLANE = ("controller-manager", "scheduler")


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
    serves_metrics = METRICS_SERVER in state.processes
    if serves_metrics:
        users[METRICS_SERVER] = metrics_server.USER, drivers.groups()
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


def add_controllers(directory: StateDir, state: State, now: datetime, names: Collection[str]) -> None:
    """Writes the credentials of drivers' controllers that come to a cluster which exists."""
    from kubeskew.cluster.pki import Authority, KeyPair, RandomKeys

    ca = directory.ca.read_bytes()
    authority = Authority(KeyPair(ca, (directory.pki / "ca.key").read_bytes()), now, RandomKeys())
    files: dict[Path, bytes | str] = {}
    for name, user in drivers.users(state.nodes).items():
        if name in names:
            pair = authority.client(user, *drivers.groups())
            files |= _kubeconfig(directory, state, ca, name, user, pair)
    write_secrets(files)


def _kubeconfig(
    directory: StateDir, state: State, ca: bytes, component: str, user: str, pair: "KeyPair"
) -> dict[Path, bytes | str]:
    """Returns the kubeconfig of a component."""
    from kubeskew.cluster.pki import kubeconfig

    first, *others = [server.url("") for server in state.servers_of(component)]
    return {directory.component_kubeconfig(user): kubeconfig(first, ca, user, pair, others=others)}


def _pair(path: Path, pair: "KeyPair") -> dict[Path, bytes | str]:
    """Returns `path.crt` and `path.key`."""
    return {
        path.with_name(f"{path.name}.crt"): pair.certificate,
        path.with_name(f"{path.name}.key"): pair.key,
    }
