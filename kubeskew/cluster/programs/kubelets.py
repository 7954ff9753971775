"""Real kubelets: their configuration, what of the machine they need, and their static pods.

Each has a mount namespace of its own, in which /var/lib/kubelet and /var/log are directories of its node
(`kubeskew/shim/mount_namespace.py`). So paths in its files are those of any other kubelet.

Sources: pkg/kubelet/apis/config/types.go, pkg/kubelet/cm/container_manager_linux.go,
pkg/kubelet/nodestatus/setters.go, 1.31 … 1.36.
"""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.process.network_agent import DNS_ADDRESS
from kubeskew.apimachinery.quantity import Quantity
from kubeskew.cluster.config import over
from kubeskew.cluster.controlplane import static_pods
from kubeskew.cluster.state import Process, RunningProgram, State, StateDir, write_secret
from kubeskew.kubelet.features import ConfigurationFeatures, KubeletFeatures
from kubeskew.kubelet.node.config import CONTAINER_KEYS, SIMULATED, NodeConfig, NodeLayout, node_config
from kubeskew.shim import mount_namespace

ROOT = "/var/lib/kubelet"  # where a kubelet has its node's directory
_MANIFESTS = "manifests"  # below its root
_CAP_SYS_ADMIN = 21  # linux/capability.h
_ELSEWHERE = ("192.0.2.1", 9)  # an address of documentation (RFC 5737); nothing is sent there
_MOST_PODS = 110
_HUGE_PAGES = {"hugepages-1Gi": 1 << 30, "hugepages-2Mi": 2 << 20}  # those of a node, as of an emulated one
_SEE = "see docs/how-to/real.md"


def obstacle() -> str:
    """The reason why no real kubelet can run on this machine; empty if there is none."""
    if os.uname().sysname != "Linux":
        return "a real kubelet needs Linux"
    root = os.geteuid() == 0
    if not root and (reason := mount_namespace.refusal()):
        return (
            f"a real kubelet needs root, or a user namespace, which this machine refuses ({reason}): {_SEE}"
        )
    if root and not _may_mount():
        return f"a real kubelet needs a mount namespace, and CAP_SYS_ADMIN is missing: {_SEE}"
    if not _has_cgroups():
        return f"a real kubelet needs cgroups, and none are mounted below /sys/fs/cgroup: {_SEE}"
    if not machine_address():
        return f"a real kubelet needs an address of the machine other than loopback: {_SEE}"
    try:
        if root:
            Path(ROOT).mkdir(parents=True, exist_ok=True)  # the place of the node's own directory
    except OSError as error:
        return f"a real kubelet needs the directory {ROOT}: {error.strerror}: {_SEE}"
    return ""


def _may_mount() -> bool:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            return bool(int(value, 16) >> _CAP_SYS_ADMIN & 1)
    return False


def _has_cgroups() -> bool:
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    places = [at for _, at, kind, *_ in mounts if kind in ("cgroup", "cgroup2")]
    return any(at.startswith("/sys/fs/cgroup") for at in places)


def machine_address() -> str:
    """The address from which this machine speaks to others, which nodes of real kubelets have; empty if
    there is none. A kubelet takes no loopback address for its node.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return ""
        address: str = probe.getsockname()[0]
        return "" if address.startswith("127.") else address


def layout_of(directory: StateDir, state: State, node: str) -> NodeLayout:
    sockets = Path(state.runtime_dir) if state.runtime_dir else None
    return NodeLayout.under(directory.kubelet_root(), node, sockets)


def acted_nodes_only(state: State, node: str) -> str:
    """The reason why the node cannot have a real kubelet, whatever the machine is; empty if there is none."""
    runtime = _with_runtime(state, node).runtime
    return (
        "" if runtime == SIMULATED else f"a real kubelet's containers are acted: leave out runtime: {runtime}"
    )


def node_entry(state: State, node: str) -> dict[str, Any]:
    """A node as its record has it, with the cluster's own settings of containers behind it."""
    entry = state.node_spec(node).as_json()
    return {**entry, **over({key: entry[key] for key in CONTAINER_KEYS if key in entry}, state.containers)}


def endpoint_of_node(state: State, node: str) -> str:
    """The endpoint at which an emulated kubelet has its container runtime; empty if that is kubeskew's."""
    return _with_runtime(state, node).endpoint


def _with_runtime(state: State, node: str) -> NodeConfig:
    return node_config(node_entry(state, node))


def node_section(directory: StateDir, state: State, process: Process) -> dict[str, Any]:
    """The shim's own part in a kubelet: the node, and the runtime that it serves."""
    node = process.nodes[0]
    layout = layout_of(directory, state, node)
    return {
        "entry": state.node_spec(node).as_json(),
        "root": str(directory.kubelet_root()),
        "sockets": state.runtime_dir,
        "criSocket": str(layout.sockets / "cri.sock"),
        "clientCertificate": str(directory.pki / "apiserver-kubelet-client.crt"),
        "clientKey": str(directory.pki / "apiserver-kubelet-client.key"),
    }


def write_configuration(
    directory: StateDir, state: State, process: Process, program: RunningProgram, certificate: Path
) -> Path:
    """Writes the kubelet's configuration and its static pods."""
    node = node_config(state.node_spec(process.nodes[0]).as_json())
    layout = layout_of(directory, state, node.name)
    file = directory.program_file(process.name).with_suffix(".config.yaml")
    features = KubeletFeatures.of(process.feature_gates).configuration
    config = configuration(node, program.port, features, str(layout.sockets / "cri.sock"))
    config["tlsCertFile"] = str(certificate)
    config["tlsPrivateKeyFile"] = str(certificate.with_suffix(".key"))
    config["authentication"]["x509"] = {"clientCAFile": str(directory.ca)}
    write_secret(file, yaml.safe_dump(config, sort_keys=False))
    write_static_pods(directory, state, process)
    return file


def write_machine(layout: NodeLayout, node: NodeConfig) -> Path:
    """Writes what the kubelet is to see of the machine: the processors, the memory and the huge pages of its
    node."""
    machine = layout.node / "machine"
    shutil.rmtree(machine, ignore_errors=True)
    processors = max(int(Quantity.parse(node.capacity["cpu"]).decimal()), 1)
    memory = int(Quantity.parse(node.capacity["memory"]).decimal())
    huge_pages = {
        size: Quantity.parse(node.capacity.get(name, "0")).value() // size
        for name, size in _HUGE_PAGES.items()
    }
    for name, content in mount_namespace.machine_files(processors, memory, huge_pages).items():
        file = machine / name
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.write_text(content)
    return machine


def configuration(
    node: NodeConfig, port: int, features: ConfigurationFeatures, cri_socket: str
) -> dict[str, Any]:
    """KubeletConfiguration, v1beta1, without its files. Nothing of the machine's cgroups, iptables and
    sysctls is managed, and no pod is evicted for what the machine lacks.
    """
    percents = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": "0.0.0.0",  # noqa: S104 - the API server dials the node's address
        "port": port,
        "healthzPort": 0,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{cri_socket}",
        "staticPodPath": f"{ROOT}/{_MANIFESTS}",
        "volumePluginDir": f"{ROOT}/volumeplugins",
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "maxPods": int(node.capacity.get("pods", _MOST_PODS)),
        **({"registerWithTaints": [dict(taint) for taint in node.taints]} if node.taints else {}),
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        **({"failCgroupV1": False} if features.fails_on_cgroup_v1 is not None else {}),
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "makeIPTablesUtilChains": False,
        "oomScoreAdj": 0,
        "evictionHard": {**dict.fromkeys(percents, "0%"), "imagefs.inodesFree": "0%"},
        "imageGCHighThresholdPercent": 100,
        **({} if os.geteuid() == 0 else {"featureGates": {"KubeletInUserNamespace": True}}),
        **_managers(node),
    }


def _managers(node: NodeConfig) -> Mapping[str, Any]:
    """A static memory manager has all that is reserved on one NUMA node."""
    found: dict[str, Any] = {
        "cpuManagerPolicy": node.cpu_manager_policy,
        "memoryManagerPolicy": node.memory_manager_policy,
        "topologyManagerScope": node.topology_manager_scope,
    }
    if node.kube_reserved:
        found["kubeReserved"] = dict(node.kube_reserved)
    if node.memory_manager_policy == "Static":
        limits = {"memory": node.kube_reserved.get("memory", "0")}
        found["reservedMemory"] = [{"numaNode": 0, "limits": limits}]
    return found


def write_static_pods(directory: StateDir, state: State, process: Process) -> None:
    """The kubelet looks at the directory by itself."""
    node = process.nodes[0]
    manifests = static_pods.manifests(state) if node in static_pods.nodes(state) else []
    folder = layout_of(directory, state, node).kubelet / _MANIFESTS
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    wanted = {f"{manifest['metadata']['name']}.yaml": manifest for manifest in manifests}
    for file in sorted(folder.iterdir()):
        if file.name not in wanted:
            file.unlink()
    for name, manifest in wanted.items():
        write_secret(folder / name, yaml.safe_dump(manifest))


def arguments(node: NodeConfig, config: Path, kubeconfig: Path) -> list[str]:
    """Flags, for what the configuration has no fields for."""
    labels = ",".join(f"{name}={value}" for name, value in node.labels.items())
    return [
        f"--config={config}",
        f"--kubeconfig={kubeconfig}",
        f"--root-dir={ROOT}",
        f"--cert-dir={ROOT}/pki",
        f"--hostname-override={node.name}",
        f"--node-ip={machine_address()}",
        *((f"--node-labels={labels}",) if labels else ()),
    ]
