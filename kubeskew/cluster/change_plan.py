"""Plans a change before it is made: the components, their targets, and upstream's support for each step."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.gates import FeatureGates, all_gates, known_gate
from kubeskew.apimachinery.known_bugs import known_bugs
from kubeskew.apimachinery.known_names import (
    CONTROLLER,
    DRIVER,
    METRICS_SERVER,
    UNVERSIONED,
    all_names,
    did_you_mean,
    kind_of,
    meant,
    names_of,
)
from kubeskew.apimachinery.versions import Version
from kubeskew.cluster import skew
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.controlplane import static_pods
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.programs.gates import check_program_gates
from kubeskew.cluster.programs.inspection import Program
from kubeskew.cluster.state import Process, State


@dataclass(frozen=True, slots=True)
class Target:
    version: Version
    gates: Mapping[str, bool]
    bugs: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, process: Process) -> "Target":
        return cls(Version.parse(process.version), process.gates, process.bugs)

    def is_met(self, process: Process) -> bool:
        return self == Target.of(process)


def initial_target(spec: ClusterSpec, name: str) -> Target:
    override = _override(spec, name)
    gates = {**spec.gates, **override.get("gates", {})}
    bugs = {**spec.bugs, **override.get("bugs", {})}
    own = {id_: on for id_, on in bugs.items() if known_bugs()[id_].is_of(kind_of(name))}
    return Target(override.get("version", spec.version), gates, own)


def initial_server(spec: ClusterSpec, name: str) -> str:
    """The first API server has an empty text; `any` is possible, too."""
    server: str = _override(spec, name).get("server", "")
    return server


def initial_workers(spec: ClusterSpec, name: str) -> str:
    """Empty for components that are no API servers, and where nothing is said."""
    if kind_of(name) != "apiserver":
        return ""
    workers: str = _override(spec, name).get("workers", spec.workers)
    return workers


def _override(spec: ClusterSpec, name: str) -> Mapping[str, Any]:
    """Narrower names take precedence."""
    override: dict[str, Any] = {}
    for each in names_of(name):
        override |= {key: value for key, value in spec.overrides.get(each, {}).items() if value != ""}
    return override


def release(text: str) -> Version:
    """Raises UserError, with a remedy, if the text names no version."""
    try:
        return Version.parse(text)
    except ValueError as error:
        raise UserError(str(error)) from error


def check_gates(name: str, target: Target, program: Program | None = None) -> None:
    """Raises UserError, naming the component, if its version, or the real program that it is to run, does not
    know or has locked a gate.
    """
    if program is not None:
        check_program_gates(name, program, target.version, target.gates)
        return
    try:
        FeatureGates(target.version, target.gates).validate()
    except ValueError as error:
        misspelt = next((gate for gate in target.gates if not known_gate(gate)), None)
        hint = did_you_mean(misspelt, all_gates()) if misspelt else ""
        raise UserError(f"{name} at {target.version}: {error}{hint}") from error


def changed_gates(gates: Mapping[str, bool], changes: Mapping[str, bool | None]) -> dict[str, bool]:
    """None unsets a gate."""
    merged = {**gates, **changes}
    return {gate: on for gate, on in merged.items() if on is not None}


def check_direction(state: State, names: Iterable[str], to: Version, *, downgrade: bool) -> None:
    """A move of any component in the other direction is refused with UserError."""
    for name in names:
        current = Version.parse(state.components()[name].version)
        if (to > current) if downgrade else (to < current):
            verb = "upgrade" if downgrade else "downgrade"
            raise UserError(f"{name} is at {current}: to go to {to}, use `kubeskew {verb}`")


def check_portable(targets: Mapping[str, Target], programs: Mapping[str, Program | None]) -> None:
    """Gates set by hand that cannot be taken along to the target version are a UserError."""
    for name, target in targets.items():
        try:
            check_gates(name, target, programs.get(name))
        except UserError as error:
            raise UserError(
                f"{error}. It was set by hand: change that first with `kubeskew gates GATE=VALUE`, "
                "or unset it with `kubeskew gates GATE-`"
            ) from error


def check_steps(state: State, targets: Mapping[str, Target]) -> None:
    """Steps with a skew that upstream does not support are refused with UserError."""
    versions = {name: Version.parse(process.version) for name, process in state.components().items()}
    before = set(skew.violations(versions))
    for name, target in targets.items():
        versions[name] = target.version
        new = [text for text in skew.violations(versions) if text not in before]
        if new and name == last_of_kind(name, targets):
            raise UserError(
                f"unsupported version skew on the way: {'; '.join(new)}. "
                "Go one minor at a time, or use --force (in Python force=True) to do what reality would do"
            )


def last_of_kind(name: str, targets: Mapping[str, Target]) -> str:
    """Nodes change together, other components one by one."""
    if kind_of(name) != "kubelet":
        return name
    return [other for other in targets if kind_of(other) == "kubelet"][-1]


def select(state: State, names: Iterable[str]) -> list[str]:
    """Names are as in known_names.py; without any, all components are selected. Raises UserError for unknown
    ones.
    """
    components = state.components()
    wanted = list(names)
    if not wanted:
        return list(components)
    chosen: list[str] = []
    for name in wanted:
        found = meant(name, components)
        if not found:
            hint = did_you_mean(name, all_names(components))
            raise UserError(f"there is no component {name}; components are: {', '.join(components)}{hint}")
        chosen += [each for each in found if each not in chosen]
    return chosen


def versioned(state: State, names: Iterable[str]) -> list[str]:
    """Only components with a Kubernetes version can be selected, as by `select`. Raises
    UserError for others.
    """
    named = [name for name in names if kind_of(name) in UNVERSIONED]
    if named:
        raise UserError(
            f"{named[0]} has no Kubernetes version and no feature gates: drivers and the metrics server stay "
            f"as they are while the cluster changes; `upgrade` and `downgrade` take {DRIVER}/NAME, "
            f"{CONTROLLER}/NAME and {METRICS_SERVER}, which go to the libraries of that release"
        )
    return [name for name in select(state, names) if kind_of(name) not in UNVERSIONED]


def movable(state: State, names: Iterable[str]) -> list[str]:
    """Drivers and the metrics server, if named, go to the libraries of that release; others are selected as
    by `versioned`.
    """
    wanted = list(names)
    built = [name for name in wanted if kind_of(name) in UNVERSIONED]
    others = [name for name in wanted if name not in built]
    chosen = versioned(state, others) if others or not wanted else []
    return [*chosen, *(select(state, built) if built else ())]


def describe(process: Process, target: Target) -> str:
    """`1.35 → 1.36`, or the other changes."""
    if process.version != str(target.version):
        return f"{process.version} → {target.version}"
    changed = {gate: on for gate, on in target.gates.items() if process.gates.get(gate) != on}
    if changed:
        return ", ".join(f"{gate}={str(on).lower()}" for gate, on in changed.items())
    return f"restarting at {process.version}"


def disagreements(state: State, spec: ClusterSpec, given: Collection[str]) -> list[str]:
    """Lists where the existing cluster differs from the arguments of `up`; only what was `given` counts.

    `given` has any of version, gates, bugs, nodes (exactly these), count (of nodes), like, metrics, servers,
    port, binaries, real, programs, containers, time, workers. The place of the log is compared elsewhere.
    """
    found = []
    for name in versioned(state, ()):
        process = state.components()[name]
        target = initial_target(spec, name)
        if "version" in given and Version.parse(process.version) != target.version:
            found.append(f"{name} is at {process.version}, not {target.version}")
        if "gates" in given and any(process.gates.get(gate) != on for gate, on in target.gates.items()):
            found.append(f"{name} has other feature gates")
        if "bugs" in given and process.bugs != target.bugs:
            found.append(f"{name} has other known bugs switched")
        workers = initial_workers(spec, name)
        if "workers" in given and workers != process.workers:
            found.append(f"{name} has {process.workers or 1} workers, not {workers or 1}")
        server = initial_server(spec, name)
        if "nodes" in given and state.servers.get(name, "") != server:
            found.append(f"{name} speaks to another API server than {server or 'the first'}")
    found += [text for name, differs, text in _of_cluster(state, spec) if name in given and differs]
    return found


def _of_cluster(state: State, spec: ClusterSpec) -> Iterator[tuple[str, bool, str]]:
    """Yields names that `given` may have, each with True if the clusters differ in it, and a text."""
    servers = state.of_kind("apiserver")
    nodes = {node.name: node.as_json() for node in spec.nodes}
    yield "nodes", state.nodes != nodes, "its nodes are not those of the file"
    yield (
        "count",
        len(state.nodes) != len(spec.nodes),
        f"it has {len(state.nodes)} nodes, not {len(spec.nodes)}",
    )
    has_metrics = bool(state.of_kind(METRICS_SERVER))
    yield (
        "metrics",
        spec.metrics_server != has_metrics,
        f"it has {'no' if spec.metrics_server else 'a'} metrics server",
    )
    yield "like", not static_pods.nodes(state), f"it is not like {spec.like}"
    yield (
        "servers",
        len(servers) != spec.servers,
        f"it has {len(servers)} API servers, not {spec.servers}",
    )
    folder = state.binaries or "no folder"
    yield "binaries", spec.binaries != state.binaries, f"its programs are of {folder}, not of {spec.binaries}"
    yield "time", spec.time != state.time, f"its components wait as with --time {state.time}"
    yield "real", [*spec.real] != state.real, f"real in it are {', '.join(state.real) or 'no components'}"
    yield "containers", spec.containers != state.containers, "its container runtime or images are others"
    yield "programs", spec.programs != state.programs, "its components have other programs than the file"
    yield "port", spec.port not in (0, servers[0].port), f"its port is {servers[0].port}, not {spec.port}"
