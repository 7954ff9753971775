"""The nodes file: which nodes a kubelet process hosts, what they are made of, and where their files are.

YAML or JSON:

    nodes:
    - name: node-1
      labels: {zone: a}
      capacity: {cpu: "8", memory: 32Gi, pods: "110"}
      taints: [{key: dedicated, value: x, effect: NoSchedule}]  # at its registration
      kubeconfig: node-1.kubeconfig  # optional: as whom its kubelet speaks, else as the process
      cpuManagerPolicy: static       # these as in a KubeletConfiguration; by default none and None
      memoryManagerPolicy: Static
      topologyManagerScope: pod      # by default container
      kubeReserved: {cpu: "1", memory: 1Gi}
      network: /tmp/network.sock     # if its pods have a network
      podCIDR: 10.244.1.0/24
      runtime: simulated             # its container runtime
      containerRuntimeEndpoint: unix:///run/containerd/containerd.sock  # for the runtime cri
      images: {"busybox*": {program: /bin/busybox}}  # by names with wildcards (image_entries.py)
      imagePolicy: simulate          # images without an entry: strict refuses them
      staticPods: [{metadata: {name: etcd, namespace: kube-system}, spec: {…}}]
      killed: false

A node's state is below the kubelet's root directory, its sockets in a directory with a short path.
"""

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.quantity import Quantity, QuantityError
from kubeskew.kubelet.containers.image_entries import ImageEntries, ImageEntry

_LONGEST_NAME = 7  # characters of a node's name in paths of its sockets, which must be as short as upstream's
POLICIES = {
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerScope": ("container", "pod"),
}
# A kubelet with a static policy does not start without a reserve.
_RESERVES = {"cpuManagerPolicy": ("static", "cpu", "1"), "memoryManagerPolicy": ("Static", "memory", "1Gi")}
RESERVED = ("cpu", "memory")
SIMULATED, HOST, CRI = "simulated", "host", "cri"
RUNTIMES = (SIMULATED, HOST, "host-plain", CRI)
ENDPOINT = "containerRuntimeEndpoint"
DEFAULT_ENDPOINT = "unix:///run/containerd/containerd.sock"  # as in a KubeletConfiguration
STRICT = "strict"
IMAGE_POLICIES = (STRICT, "simulate")
CONTAINER_KEYS = ("runtime", "images", "imagePolicy", ENDPOINT)
SETTINGS_KEYS = (*POLICIES, "kubeReserved")
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


@dataclass(frozen=True, slots=True)
class NodeLayout:
    """The directories of a node. Those under `sockets` have upstream's names below /var/lib/kubelet.

    Only the registry is in a short directory, because plugins give their sockets there the longest names.
    """

    node: Path
    sockets: Path
    registry: Path  # plugins register by a socket here

    @classmethod
    def under(cls, root: Path, node_name: str, sockets: Path | None = None) -> "NodeLayout":
        """`sockets` is a short directory for the sockets of all nodes.

        Without it the sockets are where upstream has them, next to the kubelet's checkpoints.
        """
        node = root / node_name
        if sockets is None:
            return cls(node, node / "kubelet", node / "kubelet" / "plugins_registry")
        short = sockets / _short(node_name)
        return cls(node, short, short / "registry")

    @property
    def runtime(self) -> Path:
        """The container runtime keeps its state here, apart from the kubelet's."""
        return self.node / "runtime"

    @property
    def host(self) -> Path:
        """The runtime of containers that are processes of this machine keeps its state here."""
        return self.node / "host"

    @property
    def remote(self) -> Path:
        """Requests to a container runtime of the machine are kept here."""
        return self.node / "remote"

    @property
    def seccomp(self) -> Path:
        """Profiles that containers name; upstream's /var/lib/kubelet/seccomp."""
        return self.kubelet / "seccomp"

    @property
    def images(self) -> Path:
        """The images of such containers; all nodes share them."""
        return self.node.parent / ".images"

    @property
    def logs(self) -> Path:
        """Upstream's /var/log/pods."""
        return self.node / "logs"

    @property
    def kubelet(self) -> Path:
        """Upstream's /var/lib/kubelet without sockets; checkpoints are directly in it."""
        return self.node / "kubelet"

    @property
    def cdi(self) -> Path:
        """Upstream's /var/run/cdi."""
        return self.node / "cdi"

    @property
    def plugins(self) -> Path:
        """Each driver has a directory for its own sockets here."""
        return self.sockets / "plugins"

    @property
    def device_plugins(self) -> Path:
        """Device plugins register on the kubelet's socket here, next to their own."""
        return self.sockets / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        """The kubelet's socket for monitoring agents is in this directory."""
        return self.sockets / "pod-resources"

    @property
    def root(self) -> Path:
        """The node's root directory, for what is in none of the others."""
        return self.node / "root"

    @property
    def elsewhere(self) -> Mapping[str, Path]:
        """Maps paths of a node to those of its directories here that are not below its root."""
        sockets = {
            "plugins": self.plugins,
            "plugins_registry": self.registry,
            "device-plugins": self.device_plugins,
            "pod-resources": self.pod_resources,
        }
        return {
            "/var/lib/kubelet": self.kubelet,
            "/var/run/cdi": self.cdi,
            "/run/cdi": self.cdi,
            "/var/log/pods": self.logs,
            **{
                f"/var/lib/kubelet/{name}": path
                for name, path in sockets.items()
                if path != self.kubelet / name
            },
        }

    def plugin(self, driver: str) -> Path:
        """A driver's data here outlives its sockets."""
        return self.kubelet / "plugins" / driver

    def make(self) -> None:
        """Makes the directories that others read before the kubelet writes anything there."""
        shared = (self.plugins, self.registry, self.device_plugins, self.pod_resources, self.cdi)
        for directory in shared:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)


def _short(node_name: str) -> str:
    if len(node_name) <= _LONGEST_NAME:
        return node_name
    digest = hashlib.sha256(node_name.encode()).digest()
    return base64.b32encode(digest)[:_LONGEST_NAME].decode().lower()


class SettingsError(ValueError):
    """A setting that no kubelet has."""


def parse_settings(settings: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Adds the reserves that policies need, unless the settings have some.

    Raises SettingsError.
    """
    for key, known in POLICIES.items():
        if key in settings and settings[key] not in known:
            hint = did_you_mean(str(settings[key]), known)
            raise SettingsError(
                f"{where}.{key}: expected {' or '.join(known)}, found {settings[key]!r}{hint}"
            )
    parsed = dict(settings)
    if "kubeReserved" in settings:
        parsed["kubeReserved"] = _reserved(settings["kubeReserved"], f"{where}.kubeReserved")
        return parsed
    reserves = {
        name: amount for key, (policy, name, amount) in _RESERVES.items() if settings.get(key) == policy
    }
    return parsed | ({"kubeReserved": reserves} if reserves else {})


def _reserved(value: Any, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not set(value) <= set(RESERVED):
        raise SettingsError(f"{where}: expected a mapping with {' and '.join(RESERVED)}, found {value!r}")
    for name, amount in value.items():
        try:
            Quantity.parse(str(amount))
        except QuantityError as error:
            raise SettingsError(f"{where}.{name}: {error}") from error
    return {name: str(amount) for name, amount in value.items()}


class NodesFileError(ValueError):
    """The nodes file does not say what it should."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()  # set at registration
    kubeconfig: Path | None = None  # the node's own credentials
    cpu_manager_policy: str = "none"
    memory_manager_policy: str = "None"
    topology_manager_scope: str = "container"
    kube_reserved: Mapping[str, str] = field(default_factory=dict)  # not for pods
    network: str = ""  # the Unix socket of the network that its pods have
    pod_cidr: str = ""  # their addresses there
    runtime: str = SIMULATED
    images: ImageEntries = ()
    image_policy: str = ""  # by default strict where programs run
    runtime_endpoint: str = ""  # the URL of the socket of a runtime that speaks CRI; empty: containerd's
    killed: bool = False  # to stop abruptly, as by SIGKILL
    static_pods: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)  # may change while it runs

    @property
    def strict_images(self) -> bool:
        """True means that images without an entry cannot be pulled."""
        return (self.image_policy or (STRICT if self.runtime != SIMULATED else "")) == STRICT

    @property
    def endpoint(self) -> str:
        """The URL at which the node's runtime speaks CRI; empty for those that do not."""
        return (self.runtime_endpoint or DEFAULT_ENDPOINT) if self.runtime == CRI else ""

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of a KubeletConfiguration that the node has for itself."""
        reserved = {"kubeReserved": dict(self.kube_reserved)} if self.kube_reserved else {}
        return {
            "maxPods": Quantity.parse(self.capacity.get("pods", DEFAULT_CAPACITY["pods"])).value(),
            "cpuManagerPolicy": self.cpu_manager_policy,
            "memoryManagerPolicy": self.memory_manager_policy,
            "topologyManagerScope": self.topology_manager_scope,
            **reserved,
            **({ENDPOINT: self.endpoint} if self.endpoint else {}),
        }


def load_nodes(path: Path, endpoint: str = "") -> list[NodeConfig]:
    """Reads the nodes; with an endpoint, those that name no runtime have the one that listens there.

    Raises NodesFileError.
    """
    try:
        content = yaml_files.load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise NodesFileError(f"cannot read nodes file {path}: {error}") from error
    entries = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise NodesFileError(f"nodes file {path} has no list `nodes`")
    nodes = [_node(entry, path) for entry in entries]
    if endpoint:
        named = [isinstance(entry, dict) and bool(entry.get("runtime")) for entry in entries]
        nodes = [
            node if has_runtime else replace(node, runtime=CRI, runtime_endpoint=endpoint)
            for node, has_runtime in zip(nodes, named, strict=True)
        ]
    if len({node.name for node in nodes}) != len(nodes):
        raise NodesFileError(f"nodes file {path} names a node twice")
    return nodes


def node_config(entry: Mapping[str, Any]) -> NodeConfig:
    """Raises NodesFileError for an entry that is not well formed."""
    return _node(entry, Path("nodes"))


def _node(entry: Any, path: Path) -> NodeConfig:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise NodesFileError(f"nodes file {path}: an entry of `nodes` needs a name")
    capacity = {**DEFAULT_CAPACITY, **(entry.get("capacity") or {})}
    return NodeConfig(
        name=entry["name"],
        labels={str(key): str(value) for key, value in (entry.get("labels") or {}).items()},
        capacity={str(name): str(amount) for name, amount in capacity.items()},
        taints=tuple(dict(taint) for taint in entry.get("taints") or []),
        kubeconfig=Path(entry["kubeconfig"]) if entry.get("kubeconfig") else None,
        cpu_manager_policy=str(entry.get("cpuManagerPolicy") or "none"),
        memory_manager_policy=str(entry.get("memoryManagerPolicy") or "None"),
        topology_manager_scope=str(entry.get("topologyManagerScope") or "container"),
        kube_reserved={str(name): str(amount) for name, amount in (entry.get("kubeReserved") or {}).items()},
        network=str(entry.get("network") or ""),
        pod_cidr=str(entry.get("podCIDR") or ""),
        runtime=str(entry.get("runtime") or SIMULATED),
        images=tuple((name, ImageEntry.of(each)) for name, each in (entry.get("images") or {}).items()),
        image_policy=str(entry.get("imagePolicy") or ""),
        runtime_endpoint=str(entry.get(ENDPOINT) or ""),
        killed=bool(entry.get("killed")),
        static_pods=tuple(entry.get("staticPods") or ()),
    )
