"""The nodes file: which nodes a kubelet process hosts, and what they are made of.

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
      staticPods: [{metadata: {name: etcd, namespace: kube-system}, spec: {…}}]
      killed: false
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files

DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class NodesFileError(ValueError):
    """The nodes file does not say what it should."""


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()  # set at registration
    kubeconfig: Path | None = None  # the node's own credentials
    cpu_manager_policy: str = "none"
    memory_manager_policy: str = "None"
    topology_manager_scope: str = "container"
    kube_reserved: Mapping[str, str] = field(default_factory=dict)  # not for pods
    killed: bool = False  # to stop abruptly, as by SIGKILL
    static_pods: tuple[Mapping[str, Any], ...] = field(default=(), compare=False)  # may change while it runs


def load_nodes(path: Path) -> list[NodeConfig]:
    """Returns the nodes of a file; raises NodesFileError."""
    try:
        content = yaml_files.load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise NodesFileError(f"cannot read nodes file {path}: {error}") from error
    entries = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise NodesFileError(f"nodes file {path} has no list `nodes`")
    nodes = [_node(entry, path) for entry in entries]
    if len({node.name for node in nodes}) != len(nodes):
        raise NodesFileError(f"nodes file {path} names a node twice")
    return nodes


def node_config(entry: Mapping[str, Any]) -> NodeConfig:
    """Returns the node of an entry that is well formed."""
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
        killed=bool(entry.get("killed")),
        static_pods=tuple(entry.get("staticPods") or ()),
    )
