"""Checks what a scenario says of its cluster and of its components, before any cluster is started."""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.component_names import METRICS_SERVER, all_names
from kubeskew.apimachinery.gates import FeatureGates, known_gate
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.apimachinery.versions import SUPPORTED, Version
from kubeskew.cluster import config, drivers, skew
from kubeskew.cluster.config import ClusterSpec
from kubeskew.cluster.failures import UserError
from kubeskew.cluster.planning import check_gates, initial_target
from kubeskew.conformance.bindings import bind, names_in
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import OPERATIONS, check_keys
from kubeskew.conformance.operations import faults
from kubeskew.conformance.scenario import Cell, Operation, Scenario
from kubeskew.kubelet.drivers import switches
from kubeskew.kubelet.node import settings as node_settings

_KINDS = ("apiserver", "controller-manager", "scheduler", "kubelet")
# What an operation compares with what it finds, bound when it does.
_EXPECTED = {"simulate": "answer", "request": "answer"}
_ALL_GATES = ("AllAlpha", "AllBeta")


def check_cluster(scenario: Scenario) -> None:
    """Raises ScenarioError if a cell's cluster cannot be started, or an operation names what is not in it.

    What is wrong in many cells is told once, with the first of them.
    """
    where = f"{scenario.source}: cluster"
    checked: dict[str, ClusterSpec] = {}  # by the text of the cluster, which many cells share
    for cell in scenario.cells():
        cluster = cell.cluster()
        spec = checked.get(repr(cluster))
        if spec is None:
            try:
                spec = checked[repr(cluster)] = _checked(cluster, where)
            except UserError as error:
                of_cell = f" (cell {cell.name})" if cell.parameters else ""
                raise ScenarioError(f"{error}{of_cell}") from error
        _check_operations(cell, spec, cell.bindings())


def _checked(cluster: Mapping[str, Any], where: str) -> ClusterSpec:
    """Returns the cluster. Raises UserError if it cannot be started."""
    spec = config.parse(cluster, where)
    targets = {name: initial_target(spec, name) for name in spec.components}
    for name, target in targets.items():
        check_gates(name, target)
    if found := skew.violations({name: target.version for name, target in targets.items()}):
        raise UserError(f"{where}: unsupported version skew: {'; '.join(found)}")
    return spec


def _check_operations(cell: Cell, spec: ClusterSpec, bindings: Mapping[str, Any]) -> None:
    """Checks the operations on components whose bodies the parameters alone make out."""
    nodes = {node.name: node.as_json() for node in spec.nodes}
    for step in cell.steps():
        known = {**bindings, **step.loop}
        for operation in step.all_operations():
            if OPERATIONS[operation.kind].of_cluster and all(
                name in known for name in names_in(operation.body)
            ):
                expected = _EXPECTED.get(operation.kind)
                stated = {key: value for key, value in operation.body.items() if key != expected}
                _check_operation(operation, bind(stated, known), spec, nodes)
            for name in operation.outputs:
                known.pop(name, None)


def _check_operation(
    operation: Operation, body: Mapping[str, Any], spec: ClusterSpec, nodes: Mapping[str, Any]
) -> None:
    where = f"{operation.where}.{operation.kind}"
    devices = [drivers.component(name) for name in drivers.all_of(nodes)]
    controllers = [drivers.controller_component(name) for name in drivers.controlled(nodes)]
    add_ons = [METRICS_SERVER] if spec.metrics_server else []
    every = all_names([*spec.components, *devices, *controllers, *add_ons])
    if operation.kind in {"upgrade", "downgrade", "move"}:
        for key in [key for key in ("from", "to") if key in body]:
            _check_version(body[key], f"{where}.{key}")
    if operation.kind in {"gates", "kubelet"} and body.get("set") is not None:
        _SETTINGS[operation.kind](body["set"], f"{where}.set")
    if body.get("components") is not None:
        components = body["components"]
        if not isinstance(components, list):
            raise ScenarioError(f"{where}.components: expected a list of components, found {components!r}")
        for name in components:
            _check_known(
                str(name),
                [*spec.components, *_KINDS, *devices, *controllers, *add_ons],
                f"{where}.components",
                "component",
            )
    if "component" in body:
        named = body["component"]  # one, or a list of them where an operation takes several
        for name in named if isinstance(named, list) else [named]:
            _check_known(name, every, f"{where}.component", "component")
    if operation.kind == "fault":
        faults.check(body, where)
    if operation.kind == "driver":
        _check_known(drivers.component(str(body["name"])), devices, f"{where}.name", "component")
        _check_switches(body, where)
    for node in [body["node"]] if body.get("node") else body.get("nodes") or []:
        _check_known(node, list(nodes), f"{where}.node", "node")


def _check_known(name: Any, known: Sequence[str], where: str, what: str) -> None:
    if name not in known:
        names = ", ".join(dict.fromkeys(known)) or "none"
        raise ScenarioError(
            f"{where}: there is no {what} {name}; known are {names}{did_you_mean(str(name), known)}"
        )


def _check_version(to: Any, where: str) -> None:
    try:
        Version.parse(str(to))
    except ValueError as error:
        hint = '; YAML reads 1.30 as the number 1.3: write "1.30"' if isinstance(to, float) else ""
        raise ScenarioError(f"{where}: {error}{hint}") from error


def _check_gates(chosen: Any, where: str) -> None:
    """Raises ScenarioError for a gate that no release has, or a value that is no boolean."""
    if not isinstance(chosen, Mapping):
        raise ScenarioError(f"{where}: expected a mapping of gates to true or false, found {chosen!r}")
    for name, on in chosen.items():
        if not known_gate(str(name)) and name not in _ALL_GATES:
            gates = [gate for version in reversed(SUPPORTED) for gate in FeatureGates(version).known()]
            raise ScenarioError(f"{where}: no release has a gate {name}{did_you_mean(str(name), gates)}")
        if on is not None and not isinstance(on, bool):
            raise ScenarioError(f"{where}.{name}: expected true or false, found {on!r}")


def _check_kubelet(settings: Any, where: str) -> None:
    check_keys(settings, node_settings.KEYS, where)
    try:
        node_settings.parse(settings, where)
    except node_settings.SettingsError as error:
        raise ScenarioError(str(error)) from error


_SETTINGS = {"gates": _check_gates, "kubelet": _check_kubelet}  # of operations with `set`


def _check_switches(body: Mapping[str, Any], where: str) -> None:
    try:
        switches.parse({key: value for key, value in body.items() if key in switches.SWITCHES})
    except switches.SwitchError as error:
        raise ScenarioError(f"{where}.{error}") from error
