"""Reads the cluster file of `up --config`, and builds the cluster that flags describe.

`clusterfile.py` has the keys, docs/cluster-file.md describes each.
"""

import os
import re
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery import yaml_files
from kubeskew.apimachinery.catalogue.served_resources import check_for_any_release
from kubeskew.apimachinery.gates import FeatureGates, known_gate
from kubeskew.apimachinery.known_bugs import check_bugs
from kubeskew.apimachinery.known_names import (
    CONTROLLER,
    DRIVER,
    METRICS_SERVER,
    PLUGIN,
    all_names,
    did_you_mean,
    kind_of,
)
from kubeskew.apimachinery.periods import QUICK
from kubeskew.apimachinery.pod_resources import is_extended_resource
from kubeskew.apimachinery.schema_checks import SchemaError, check, expected
from kubeskew.apimachinery.versions import DEFAULT_VERSION, Version
from kubeskew.apiserver.storage.urls import SQLITE, is_malformed, without_password
from kubeskew.cluster.clusterfile import (
    ANY_SERVER,
    CLUSTER_KEYS,
    CONFIG_FLAG,
    PLUGIN_KEYS,
    REAL,
    REFERENCES,
    STORAGE_PATTERN,
    object_of,
)
from kubeskew.cluster.failures import UserError
from kubeskew.kubelet.drivers.settings import differing_delays, offer
from kubeskew.kubelet.node import config as node_settings

_SHAPE = object_of(CLUSTER_KEYS)
_OF_PROGRAMS = ("binary", "args", "env")
_NODE_SETTINGS = (*node_settings.SETTINGS_KEYS, *node_settings.CONTAINER_KEYS)
_PATHS = ("path", "program")  # of an image
DEFAULT_NODES = 3
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """`drivers` and `device_plugins` are as in the cluster file."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULT_CAPACITY))
    taints: tuple[Mapping[str, str], ...] = ()
    drivers: tuple[Mapping[str, Any], ...] = ()
    device_plugins: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # of its kubelet
    control_plane: bool = False  # shows the control plane as static pods

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "labels": dict(self.labels),
            "capacity": dict(self.capacity),
            "taints": [dict(taint) for taint in self.taints],
            "drivers": [dict(driver) for driver in self.drivers],
            "devicePlugins": [dict(plugin) for plugin in self.device_plugins],
            **self.settings,
            **({"controlPlane": True} if self.control_plane else {}),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "NodeSpec":
        return cls(
            name=value["name"],
            labels=value.get("labels") or {},
            capacity=value.get("capacity") or dict(DEFAULT_CAPACITY),
            taints=tuple(value.get("taints") or ()),
            drivers=tuple(value.get("drivers") or ()),
            device_plugins=tuple(value.get("devicePlugins") or ()),
            settings={key: value[key] for key in _NODE_SETTINGS if key in value},
            control_plane=bool(value.get("controlPlane")),
        )


@dataclass(frozen=True, slots=True)
class ClusterSpec:
    """`overrides` has other versions, gates or API servers of single components."""

    version: Version = DEFAULT_VERSION
    gates: Mapping[str, bool] = field(default_factory=dict)
    bugs: Mapping[str, bool] = field(default_factory=dict)
    runtime_config: Mapping[str, bool] = field(default_factory=dict)
    nodes: tuple[NodeSpec, ...] = ()
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    servers: int = 1
    port: int = 0
    verbosity: int = 0
    time: str = QUICK  # one of TIMES
    like: str = ""
    storage: str = ""  # the URL of the log; empty for a file in the state directory
    metrics: bool | None = None  # whether there is a metrics server; None: as `like` has it
    binaries: str = ""  # a folder of real programs by version
    real: tuple[str, ...] = ()  # kinds of components that take them
    containers: Mapping[str, Any] = field(default_factory=dict)  # CONTAINER_KEYS of a node
    workers: str = ""  # of each API server: a number or `auto`; empty if nothing is said

    @property
    def programs(self) -> dict[str, dict[str, Any]]:
        """Settings of real programs by the component's name, as the record has them."""
        return {name: entry["program"] for name, entry in self.overrides.items() if entry.get("program")}

    @property
    def metrics_server(self) -> bool:
        """Follows `like` unless `metrics` is set."""
        return bool(self.like) if self.metrics is None else self.metrics

    @property
    def has_network(self) -> bool:
        """Pods that are processes of this machine have a network of their own."""
        common = self.containers.get("runtime")
        return any(node.settings.get("runtime", common) == "host" for node in self.nodes)

    @property
    def server_names(self) -> tuple[str, ...]:
        if self.servers == 1:
            return ("apiserver",)
        return tuple(f"apiserver-{number}" for number in range(1, self.servers + 1))

    @property
    def components(self) -> tuple[str, ...]:
        """Only components with a version have names here: API servers, controller manager, scheduler,
        kubelets by node.
        """
        kubelets = [f"kubelet/{node.name}" for node in self.nodes]
        return (*self.server_names, "controller-manager", "scheduler", *kubelets)

    def with_flags(
        self,
        version: Version | None,
        gates: Mapping[str, bool],
        nodes: int | None,
        servers: int | None,
        port: int,
        bugs: Mapping[str, bool] | None = None,
        like: str = "",
        storage: str = "",
        binaries: str = "",
        real: Sequence[str] | None = None,
        containers: Mapping[str, Any] | None = None,
        time: str = "",
    ) -> "ClusterSpec":
        """Flags take precedence. Raises UserError for combinations that are impossible."""
        spec = replace(
            self,
            servers=servers or self.servers,
            port=port,
            gates={**self.gates, **gates},
            bugs={**self.bugs, **(bugs or {})},
            like=like or self.like,
            storage=storage or self.storage,
            binaries=binaries or self.binaries,
            real=self.real if real is None else tuple(real),
            containers=over(containers or {}, self.containers),
            time=time or self.time,
        )
        if version is not None:
            spec = replace(spec, version=version)
        if nodes is not None:
            spec = replace(spec, nodes=numbered_nodes(nodes))
        return spec.with_control_plane("the cluster")

    def with_control_plane(self, source: str) -> "ClusterSpec":
        """Adds the node of the control plane if `like` asks for it. Raises UserError."""
        if not self.like or any(node.control_plane for node in self.nodes):
            return self
        if self.servers > 1:
            raise UserError(f"{source}: like {self.like} has one API server: leave out ha, or like", "ha")
        taints = ({"key": CONTROL_PLANE, "effect": "NoSchedule"},) if self.nodes else ()
        node = NodeSpec(f"{self.like}-control-plane", taints=taints, control_plane=True)
        return replace(self, nodes=(node, *self.nodes))


def over(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of containers, of which the first ones count; its images come first."""
    merged = {**second, **first}
    if "images" in merged:
        images = first.get("images") or {}
        others = second.get("images") or {}
        merged["images"] = {**images, **{name: each for name, each in others.items() if name not in images}}
    return merged


def numbered_nodes(count: int) -> tuple[NodeSpec, ...]:
    return tuple(NodeSpec(f"node-{number}") for number in range(1, count + 1))


def load(path: Path) -> ClusterSpec:
    """UserError names the place of the fault."""
    try:
        text = path.read_text()
        documents = yaml_files.load_checked(text)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"cannot read {path}: it is not UTF-8") from error
    except yaml.YAMLError as error:
        raise UserError(yaml_files.explain(error, str(path))) from error
    if len(documents) > 1:
        raise UserError(f"{path}: expected one document, found {len(documents)}")
    try:
        return parse(documents[0] if documents else None, str(path), path.absolute().parent)
    except UserError as error:
        error.args = (yaml_files.with_line(str(error), str(path), yaml_files.compose(text), error.key),)
        raise


def parse(value: Any, source: str, base: Path | None = None) -> ClusterSpec:
    """`source` names the cluster file in errors. They have no line, which `load` adds. Relative paths
    begin at `base`, by default the working directory.
    """
    cluster = {} if value is None else value
    try:
        check(cluster, _SHAPE, REFERENCES)
    except SchemaError as error:
        raise UserError(f"{source}: {error}", error.key) from error
    version = _version(cluster["version"], source) if "version" in cluster else DEFAULT_VERSION
    nodes = cluster.get("nodes")
    spec = ClusterSpec(
        version=version,
        gates=_gates(cluster.get("featureGates") or {}, version, f"{source}: featureGates"),
        bugs=_bugs(cluster.get("bugs") or {}, f"{source}: bugs"),
        runtime_config=_runtime_config(cluster.get("runtimeConfig") or {}, f"{source}: runtimeConfig"),
        nodes=numbered_nodes(DEFAULT_NODES)
        if nodes is None
        else _nodes(nodes, f"{source}: nodes", base or Path.cwd()),
        overrides=_overrides(cluster.get("components") or {}, f"{source}: components", base or Path.cwd()),
        servers=cluster.get("ha", 1),
        verbosity=cluster.get("verbosity", 0),
        time=cluster.get("time") or QUICK,
        like=cluster.get("like") or "",
        storage=check_storage(cluster.get("storage"), f"{source}: storage"),
        metrics=cluster.get("metricsServer"),
        binaries=absolute(cluster.get("binaries") or "", base or Path.cwd()),
        real=tuple(kind for kind in REAL if kind in (cluster.get("real") or ())),
        containers=_containers(cluster, source, base or Path.cwd()),
        workers=_workers(cluster.get("apiserver") or {}),
    ).with_control_plane(source)
    _check_overrides(spec, f"{source}: components")
    if differing := differing_delays(entry for node in spec.nodes for entry in node.drivers):
        raise UserError(f"{source}: nodes: driver {differing[0]}: syncDelay differs between nodes")
    names = [node.name for node in spec.nodes]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"{source}: two nodes are named {name}", "nodes")
    return spec


def _version(value: Any, where: str) -> Version:
    try:
        return Version.parse(str(value))
    except ValueError as error:
        raise UserError(f"{where}: version: {error}") from error


def _runtime_config(config: dict[str, bool], where: str) -> dict[str, bool]:
    try:
        check_for_any_release(config)
    except ValueError as error:
        raise UserError(f"{where}: {error}") from error
    return config


def _gates(gates: dict[str, bool], version: Version, where: str) -> dict[str, bool]:
    try:
        FeatureGates(version, gates).validate()
    except ValueError as error:
        unknown = [name for name in gates if not known_gate(name)]
        hint = did_you_mean(unknown[0], FeatureGates(version).known()) if unknown else ""
        raise UserError(f"{where}: {error}{hint}", unknown[0] if unknown else "") from error
    return gates


def _bugs(bugs: dict[str, bool], where: str, component: str = "") -> dict[str, bool]:
    for name, on in bugs.items():
        try:
            check_bugs({name: on}, component)
        except ValueError as error:
            raise UserError(f"{where}: {error}", name) from error
    return dict(sorted(bugs.items()))


def check_storage(value: Any, where: str) -> str:
    """The URL is of a log in PostgreSQL, empty for the file in the state directory. Raises UserError."""
    if value in (None, SQLITE):
        return ""
    if isinstance(value, str) and is_malformed(value):
        raise UserError(f"{where}: write / ? # and @ in a user or password percent-encoded: %2F %3F %23 %40")
    if not isinstance(value, str) or not re.search(STORAGE_PATTERN, value):
        found = without_password(value) if isinstance(value, str) else repr(value)
        raise UserError(
            f"{where}: expected postgresql://USER@HOST/DATABASE, or {SQLITE} for a file in the state "
            f"directory, found {found}"
        )
    return value


def _check_overrides(spec: ClusterSpec, where: str) -> None:
    """Overrides of components that the cluster does not have are a UserError."""
    devices = [entry["name"] for node in spec.nodes for entry in node.drivers]
    devices += [entry["resource"] for node in spec.nodes for entry in node.device_plugins]
    controlled = [entry["name"] for node in spec.nodes for entry in node.drivers if entry.get("controller")]
    names = [f"{DRIVER}/{device}" for device in devices] + [f"{CONTROLLER}/{name}" for name in controlled]
    names += [METRICS_SERVER] if spec.metrics_server else []
    known = sorted(all_names(["apiserver", *spec.components, *names]))
    for name in spec.overrides:
        if name not in known:
            hint = did_you_mean(name, known)
            raise UserError(
                f"{where}: there is no component {name}; known are {', '.join(known)}{hint}", name
            )
    servers = [*spec.server_names, ANY_SERVER]
    for name, override in spec.overrides.items():
        if override["server"] and name.startswith("apiserver"):
            raise UserError(f"{where}.{name}: server: an API server speaks to the log itself")
        if override["workers"] and not name.startswith("apiserver"):
            raise UserError(f"{where}.{name}: workers: only an API server has some", "workers")
        if override["server"] not in ("", *servers):
            available = f"{', '.join(servers)}{did_you_mean(override['server'], servers)}"
            raise UserError(
                f"{where}.{name}: there is no API server {override['server']}; known are {available}",
                "server",
            )


def _overrides(components: dict[str, dict[str, Any]], where: str, base: Path) -> dict[str, dict[str, Any]]:
    parsed = {}
    for name, override in components.items():
        place = f"{where}.{name}"
        if override.keys() & {*_OF_PROGRAMS}:
            _check_program(name, place)
        parsed[name] = {
            **({"version": _version(override["version"], place)} if "version" in override else {}),
            "gates": override.get("featureGates") or {},
            "bugs": _bugs(override.get("bugs") or {}, f"{place}.bugs", kind_of(name)),
            "server": override.get("server", ""),
            "workers": _workers(override),
            "program": _program(override, base),
        }
    return parsed


def _workers(settings: Mapping[str, Any]) -> str:
    return str(settings.get("workers", ""))


def _check_program(name: str, place: str) -> None:
    """Raises UserError for a component that can be no real program."""
    kind = kind_of(name)
    if kind not in (*REAL, DRIVER, PLUGIN):
        known = f"{', '.join(REAL)} and {DRIVER}/NAME"
        raise UserError(f"{place}: binary: {name} cannot be a real program; {known} can", "binary")


def _program(override: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Settings of a real program as the record has them; empty without any."""
    found = {key: override[key] for key in _OF_PROGRAMS if override.get(key)}
    if "binary" in found:
        found["binary"] = absolute(found["binary"], base)
    if "args" in found:
        found["args"] = [_with_absolute_config(argument, base) for argument in found["args"]]
    if "env" in found:
        found["env"] = {key: _plain(value) for key, value in found["env"].items()}
    return found


def _with_absolute_config(argument: str, base: Path) -> str:
    """A scheduler's --config=FILE; other arguments stay as they are."""
    flag, equals, value = argument.partition("=")
    return f"{flag}={absolute(value, base)}" if equals and flag == CONFIG_FLAG else argument


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def absolute(path: str, base: Path) -> str:
    """`~` is the user's home; a relative path begins at `base`."""
    return os.path.normpath(base / Path(path).expanduser()) if path else ""


def _containers(value: Mapping[str, Any], where: str, base: Path) -> dict[str, Any]:
    """The runtime, images and policy of a cluster or a node, with absolute paths; an endpoint means the
    runtime that has one. Raises UserError."""
    found = {key: value[key] for key in node_settings.CONTAINER_KEYS if value.get(key) is not None}
    if (
        node_settings.ENDPOINT in found
        and found.setdefault("runtime", node_settings.CRI) != node_settings.CRI
    ):
        text = f"{node_settings.ENDPOINT}: is for runtime: {node_settings.CRI}"
        raise UserError(f"{where}: {text}", node_settings.ENDPOINT)
    if "images" in found:
        found["images"] = {
            name: {key: absolute(each, base) if key in _PATHS else each for key, each in entry.items()}
            for name, entry in found["images"].items()
        }
    return found


def is_program(path: Path) -> bool:
    """A file that can be executed, and is no archive."""
    return path.is_file() and os.access(path, os.X_OK) and not tarfile.is_tarfile(path)


def _nodes(value: list[dict[str, Any]], where: str, base: Path) -> tuple[NodeSpec, ...]:
    nodes: list[NodeSpec] = []
    for position, item in enumerate(value):
        nodes += _node(item, f"{where}[{position}]", len(nodes), base)
    return tuple(nodes)


def _node(node: dict[str, Any], where: str, so_far: int, base_path: Path) -> list[NodeSpec]:
    base, count = node.get("name") or "node", node.get("count", 1)
    drivers, plugins = node.get("drivers") or (), node.get("devicePlugins") or ()
    for at, driver in enumerate(drivers):
        _check_devices(driver, f"{where}.drivers[{at}]")
    for at, plugin in enumerate(plugins):
        _check_resource(plugin["resource"], f"{where}.devicePlugins[{at}].resource")
    try:
        settings = node_settings.parse_settings(
            {key: node[key] for key in node_settings.SETTINGS_KEYS if key in node}
            | _containers(node, where, base_path),
            where,
        )
    except node_settings.SettingsError as error:
        raise UserError(str(error)) from error
    names = (
        [base]
        if "count" not in node and "name" in node
        else [f"{base}-{so_far + number}" for number in range(1, count + 1)]
    )
    capacity = {key: str(amount) for key, amount in (node.get("capacity") or {}).items()}
    return [
        NodeSpec(
            name=name,
            labels={key: str(label) for key, label in (node.get("labels") or {}).items()},
            capacity={**DEFAULT_CAPACITY, **capacity},
            taints=tuple(node.get("taints") or ()),
            drivers=tuple(drivers),
            device_plugins=tuple(plugins),
            settings=settings,
        )
        for name in names
    ]


def _check_resource(resource: str, where: str) -> None:
    if not is_extended_resource(resource):
        raise UserError(f"{where}: {expected(PLUGIN_KEYS['resource'].described())}, found {resource!r}")


def _check_devices(driver: Mapping[str, Any], where: str) -> None:
    try:
        offer("node", driver)
    except (ValueError, TypeError, AttributeError) as error:
        raise UserError(f"{where}: driver {driver['name']}: {error}") from error
