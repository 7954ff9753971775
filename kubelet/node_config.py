"""The nodes file: which nodes a kubelet process hosts, and what they are made of.

YAML or JSON:

    nodes:
    - name: node-1
      labels: {zone: a}
      capacity: {cpu: "8", memory: 32Gi, pods: "110"}
      taints: [{key: dedicated, value: x, effect: NoSchedule}]  # at its registration
      drivers:
      - {name: gpu.example.com, devices: 8, deviceName: gpu, attributes: {}, capacity: {memory: 40Gi}}
      kubeconfig: node-1.kubeconfig  # optional: as whom its kubelet speaks, else as the process
      killed: false
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


class NodesFileError(ValueError):
    """The nodes file does not say what it should."""


@dataclass(frozen=True, slots=True)
class DriverConfig:
    """A DRA driver on a node, and its devices `deviceName-0 …`."""

    name: str
    devices: int
    device_name: str = "gpu"
    attributes: Mapping[str, Any] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """One node."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, Any], ...] = ()  # registered with
    drivers: tuple[DriverConfig, ...] = ()
    kubeconfig: Path | None = None  # the node's own credentials
    killed: bool = False  # to be stopped abruptly, as by SIGKILL

    def differs_in_drivers_only(self, other: "NodeConfig") -> bool:
        """Whether the kubelet can go on: drivers come and go beside it."""
        return self != other and replace(self, drivers=()) == replace(other, drivers=())


def load_nodes(path: Path) -> list[NodeConfig]:
    """The nodes of a file; raises NodesFileError."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise NodesFileError(f"cannot read nodes file {path}: {error}") from error
    entries = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise NodesFileError(f"nodes file {path} has no list `nodes`")
    nodes = [_node(entry, path) for entry in entries]
    if len({node.name for node in nodes}) != len(nodes):
        raise NodesFileError(f"nodes file {path} names a node twice")
    return nodes


def _node(entry: Any, path: Path) -> NodeConfig:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise NodesFileError(f"nodes file {path}: an entry of `nodes` needs a name")
    capacity = {**DEFAULT_CAPACITY, **(entry.get("capacity") or {})}
    return NodeConfig(
        name=entry["name"],
        labels={str(key): str(value) for key, value in (entry.get("labels") or {}).items()},
        capacity={str(name): str(amount) for name, amount in capacity.items()},
        taints=tuple(dict(taint) for taint in entry.get("taints") or []),
        drivers=tuple(_driver(driver, entry["name"]) for driver in entry.get("drivers") or []),
        kubeconfig=Path(entry["kubeconfig"]) if entry.get("kubeconfig") else None,
        killed=bool(entry.get("killed")),
    )


def _driver(entry: Any, node: str) -> DriverConfig:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise NodesFileError(f"node {node}: an entry of `drivers` needs a name")
    return DriverConfig(
        name=entry["name"],
        devices=int(entry.get("devices", 1)),
        device_name=str(entry.get("deviceName") or "gpu"),
        attributes=dict(entry.get("attributes") or {}),
        capacity={str(name): str(amount) for name, amount in (entry.get("capacity") or {}).items()},
    )
