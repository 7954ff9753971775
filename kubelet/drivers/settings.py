"""The driver's file: on which nodes it runs, with which devices, and what is to go wrong there.

YAML or JSON, read again on SIGHUP:

    revision: 3                    # optional: reported once it is in effect
    nodes:
    - name: node-1
      registrarDir: /var/lib/kubelet/plugins_registry
      pluginsDir: /var/lib/kubelet/plugins
      cdiDir: /etc/cdi
      dataDir: /var/lib/driver     # optional: what outlives the sockets, else pluginsDir/DRIVER
      nodeDir: /var/lib/node-1     # optional: has cdiDir, dataDir and the journal of changes to their files
      profile: a100-mig            # or devices and deviceName alone, or resources: {slices: […]}
      devices: 2
      deviceName: gpu
      attributes: {zone: a, model: null}
      capacity: {memory: 40Gi}
      controller: true             # optional: in releases of classic DRA it allocates claims, too
      pluginAPIs: [v1beta1]        # optional: the versions of the DRA plugin's API that it serves
      switches: {refusePrepare: true}

The settings of a driver's controller are in the cluster file.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.kubelet.drivers.node_resources import read_resources
from kubeskew.kubelet.drivers.profiles import Offer
from kubeskew.kubelet.drivers.switches import Switches, parse, seconds

FLAGS = {"nodeLocal": "node_local", "shareable": "shareable"}  # key → field
DEFAULT_PARAMETERS = ("dra.example.com", "CardParameters")  # as in the draft of KEP-4381
APIS = {"v1", "v1beta1", "v1alpha2", "v1alpha3"}


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """Holds the settings below `controller` in the cluster file."""

    node_local: bool = True  # else a claim can be used on every node of the driver
    shareable: bool = False
    parameters: tuple[str, str] | None = None  # group and kind that it makes semantic parameters of
    user_limit: int = 1  # KEP-3063 as drafted: how many pods may use a claim, -1 for any number


def parse_settings(value: Any) -> ControllerSettings | None:
    """None means no controller. Raises ValueError."""
    if value is None or value is False:
        return None
    if value is True:
        return ControllerSettings()
    if not isinstance(value, Mapping) or not set(value) <= {*FLAGS, "userLimit", "semanticParameters"}:
        known = "nodeLocal, shareable, userLimit and semanticParameters"
        raise ValueError(f"controller: expected true, or a mapping with {known}")
    chosen = {FLAGS[key]: flag for key, flag in value.items() if key in FLAGS}
    if not all(isinstance(flag, bool) for flag in chosen.values()):
        raise ValueError("controller: nodeLocal and shareable are true or false")
    limit = value.get("userLimit", 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or not (limit > 0 or limit == -1):
        raise ValueError(f"controller: userLimit is a number above 0, or -1 for any; found {limit!r}")
    return ControllerSettings(**chosen, user_limit=limit, parameters=_parameters(value))


def _parameters(value: Mapping[str, Any]) -> tuple[str, str] | None:
    """Group and kind are those of the vendor's parameters; None if the controller allocates claims itself.
    Raises ValueError."""
    chosen = value.get("semanticParameters", False)
    if chosen is False:
        return None
    if chosen is True:
        return DEFAULT_PARAMETERS
    if not isinstance(chosen, Mapping) or set(chosen) != {"apiGroup", "kind"}:
        raise ValueError("controller: semanticParameters is true, or a mapping with apiGroup and kind")
    return str(chosen["apiGroup"]), str(chosen["kind"])


def plural_of(kind: str) -> str:
    """The plural of the vendor's kind."""
    name = kind.lower()
    return name if name.endswith("s") else f"{name}s"


class NodeEntry(Protocol):
    @property
    def name(self) -> str: ...


Node = TypeVar("Node", bound=NodeEntry)


class DriverFileError(ValueError):
    """The driver's file does not say what it should."""


@dataclass(frozen=True, slots=True)
class Directories:
    """The directories in which a node's kubelet and runtime look for plugins."""

    registrar: Path
    plugins: Path
    cdi: Path


@dataclass(frozen=True, slots=True)
class DriverNode:
    name: str
    directories: Directories
    offer: Offer
    switches: Switches = field(default_factory=Switches)
    data: Path | None = None
    directory: Path | None = None
    apis: tuple[str, ...] = ()
    controller: ControllerSettings | None = None  # allocates claims, in releases of classic DRA


@dataclass(frozen=True, slots=True)
class DriverFile:
    nodes: tuple[DriverNode, ...]
    revision: int = 0


def load(path: Path) -> DriverFile:
    """Raises DriverFileError."""
    return DriverFile(*read_nodes(path, "driver file", parse_node))


def read_nodes(
    path: Path, what: str, parse_entry: Callable[[Any, str], Node]
) -> tuple[tuple[Node, ...], int]:
    """Reads (nodes, revision) of a file that errors call `what`. Raises DriverFileError."""
    try:
        content = yaml_files.load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise DriverFileError(f"cannot read {what} {path}: {error}") from error
    entries = content.get("nodes") if isinstance(content, dict) else None
    if not isinstance(entries, list):
        raise DriverFileError(f"{what} {path} has no list `nodes`")
    nodes = tuple(parse_entry(entry, f"{what} {path}") for entry in entries)
    if len({node.name for node in nodes}) != len(nodes):
        raise DriverFileError(f"{what} {path} names a node twice")
    return nodes, int(content.get("revision") or 0)


def parse_node(entry: Any, where: str) -> DriverNode:
    """Raises DriverFileError."""
    if not isinstance(entry, dict):
        raise DriverFileError(f"{where}: an entry of `nodes` is no mapping")
    missing = [key for key in ("name", "registrarDir", "pluginsDir", "cdiDir") if not entry.get(key)]
    if missing:
        raise DriverFileError(f"{where}: an entry of `nodes` lacks {', '.join(missing)}")
    name = str(entry["name"])
    try:
        chosen = parse(entry.get("switches") or {})
        offered = offer(name, entry)
        apis = plugin_apis(entry)
        controller = parse_settings(entry.get("controller"))
    except (ValueError, TypeError, AttributeError) as error:
        raise DriverFileError(f"{where}: node {name}: {error}") from error
    paths = [Path(entry[key]) for key in ("registrarDir", "pluginsDir", "cdiDir")]
    data = Path(entry["dataDir"]) if entry.get("dataDir") else None
    directory = Path(entry["nodeDir"]) if entry.get("nodeDir") else None
    return DriverNode(name, Directories(*paths), offered, chosen, data, directory, apis, controller)


def plugin_apis(entry: Mapping[str, Any]) -> tuple[str, ...]:
    """No versions mean all. Raises ValueError."""
    found = entry.get("pluginAPIs") or []
    if not isinstance(found, list) or not set(found) <= APIS:
        raise ValueError(f"pluginAPIs: expected a list of {', '.join(sorted(APIS))}, found {found!r}")
    return tuple(found)


def sync_delay(entry: Mapping[str, Any]) -> float | None:
    """An entry of `drivers` may set the flag --sync-delay, in seconds; None if it does not. Raises
    ValueError."""
    try:
        return seconds(entry["syncDelay"]) if "syncDelay" in entry else None
    except ValueError as error:
        raise ValueError(f"syncDelay: {error}") from error


def differing_delays(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """Lists the drivers, each one process on all its nodes, whose entries have different delays. An entry
    without a delay has 0."""
    delays: dict[str, set[float]] = {}
    for entry in found:
        delays.setdefault(entry["name"], set()).add(sync_delay(entry) or 0.0)
    return [name for name, said in delays.items() if len(said) > 1]


def offer(node: str, entry: Mapping[str, Any]) -> Offer:
    """Entries of `drivers` and of `nodes` describe devices alike. Raises ValueError."""
    capacity, devices = entry.get("capacity") or {}, entry.get("devices")
    if devices is not None and (not isinstance(devices, int) or devices < 0):
        raise ValueError(f"devices: expected a number, found {devices!r}")
    resources = entry.get("resources")
    if resources is not None and "nodeResources" in resources:
        read_resources(resources["nodeResources"])
    return Offer(
        node=node,
        profile=str(entry.get("profile") or ""),
        devices=devices,
        device_name=str(entry.get("deviceName") or ""),
        attributes=dict(entry.get("attributes") or {}),
        capacity={str(name): str(amount) for name, amount in capacity.items()},
        resources=resources,
    )
