"""Scenario files: a Chainsaw `Test`, preceded by a header that gives the cluster and the parameters.

apiVersion: kubeskew.io/v1alpha1        # the header, optional
kind: Scenario
spec:
  cluster: {version: ($versions.from), nodes: [...]}     # as `kubeskew up --config` reads it
  parameters:                                            # the matrix runs one cell per combination
    naming: [{name: explicit, …}, {name: implicit, …}]
    versions: [{name: 1.35-1.36-1.35, from: "1.35", to: "1.36"}]
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: …}
spec:
  steps: [{name: …, try: [{apply: …}, {assert: …}, {upgrade: {to: ($versions.to)}}]}]
"""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from conformance.errors import ScenarioError

CHAINSAW = "chainsaw.kyverno.io/v1alpha1"
HEADER = "kubeskew.io/v1alpha1"

OBJECT_OPERATIONS = ("apply", "create", "patch", "delete", "assert", "error", "wait", "script", "sleep")
CLUSTER_OPERATIONS = ("upgrade", "downgrade", "gates", "restart", "kill")
RUN_KINDS = (*OBJECT_OPERATIONS, *CLUSTER_OPERATIONS, "undisturbed")
NOT_YET = ("fork", "driver", "metric")

_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of a `try` list. `where` names it in messages."""

    kind: str
    body: Mapping[str, Any]
    where: str
    description: str = ""

    @property
    def title(self) -> str:
        return self.description or self.kind


@dataclass(frozen=True, slots=True)
class Step:
    """A named list of operations, run in order; the first that fails ends the scenario."""

    name: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of the matrix: a name and the values it takes."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as its file says it, not yet bound to a cell's parameters."""

    name: str
    steps: tuple[Step, ...]
    description: str = ""
    cluster: Mapping[str, Any] | None = None
    parameters: tuple[Parameter, ...] = ()
    bindings: Mapping[str, Any] = field(default_factory=dict)
    timeouts: Mapping[str, float] = field(default_factory=dict)

    @property
    def needs_cluster(self) -> bool:
        """Whether it uses an operation that only a cluster of ours can do."""
        kinds = {operation.kind for step in self.steps for operation in step.operations}
        return bool(kinds & {*CLUSTER_OPERATIONS, "undisturbed"})

    def cells(self) -> Iterator["Cell"]:
        """One cell per combination of the parameters."""
        for values in itertools.product(*(parameter.values for parameter in self.parameters)):
            chosen = {p.name: value for p, value in zip(self.parameters, values, strict=True)}
            yield Cell(self, chosen)


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario with one value for each parameter."""

    scenario: Scenario
    parameters: Mapping[str, Any]

    @property
    def name(self) -> str:
        labels = [value_name(value) for value in self.parameters.values()]
        return "/".join([self.scenario.name, *labels])


def value_name(value: Any) -> str:
    """What a parameter's value is called: its `name`, or itself."""
    return str(value["name"] if isinstance(value, Mapping) and "name" in value else value)


def load(path: Path) -> Scenario:
    """The scenario in a file. Raises ScenarioError."""
    try:
        documents = [document for document in yaml.safe_load_all(path.read_text()) if document is not None]
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path} is not YAML: {error}") from error
    return parse(documents, str(path))


def parse(documents: list[Any], source: str) -> Scenario:
    """The scenario in a file's documents: an optional header, then one Test."""
    header: Mapping[str, Any] = {}
    tests = []
    for document in documents:
        kind = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else None
        if kind == (HEADER, "Scenario"):
            header = document.get("spec") or {}
        elif kind == (CHAINSAW, "Test"):
            tests.append(document)
        else:
            raise ScenarioError(f"{source}: expected a {HEADER} Scenario or a {CHAINSAW} Test, found {kind}")
    if len(tests) != 1:
        raise ScenarioError(f"{source}: expected one Test, found {len(tests)}")
    return _scenario(header, tests[0], source)


def _scenario(header: Mapping[str, Any], test: Mapping[str, Any], source: str) -> Scenario:
    spec = test.get("spec") or {}
    steps = spec.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{source}: spec.steps: expected a list of steps")
    bindings = {entry["name"]: entry["value"] for entry in spec.get("bindings") or []}
    return Scenario(
        name=(test.get("metadata") or {}).get("name") or Path(source).stem,
        steps=tuple(_step(step, index, source) for index, step in enumerate(steps)),
        description=spec.get("description") or "",
        cluster=header.get("cluster"),
        parameters=tuple(
            Parameter(name, tuple(values)) for name, values in (header.get("parameters") or {}).items()
        ),
        bindings=bindings,
        timeouts={name: seconds(text, source) for name, text in (spec.get("timeouts") or {}).items()},
    )


def _step(step: Any, index: int, source: str) -> Step:
    where = f"{source}: spec.steps[{index}]"
    if not isinstance(step, dict) or not isinstance(step.get("try"), list):
        raise ScenarioError(f"{where}: expected a step with a `try` list")
    name = step.get("name") or f"step {index + 1}"
    operations = tuple(
        _operation(operation, f"{where}.try[{position}]") for position, operation in enumerate(step["try"])
    )
    return Step(name, operations)


def _operation(value: Any, where: str) -> Operation:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: expected a mapping with one operation")
    kinds = [key for key in value if key != "description"]
    if len(kinds) != 1:
        raise ScenarioError(f"{where}: expected one operation, found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    if kind in NOT_YET:
        raise ScenarioError(f"{where}: the operation {kind} is not supported yet")
    if kind not in RUN_KINDS:
        raise ScenarioError(f"{where}: unknown operation {kind}; known are {', '.join(RUN_KINDS)}")
    if not isinstance(value[kind], dict):
        raise ScenarioError(f"{where}.{kind}: expected a mapping")
    return Operation(kind, value[kind], where, value.get("description") or "")


def seconds(text: Any, where: str) -> float:
    """A Go duration such as `1m30s`, in seconds."""
    found = list(_DURATION.finditer(str(text)))
    if not found or "".join(match[0] for match in found) != str(text):
        raise ScenarioError(f"{where}: {text!r} is not a duration; write 30s or 1m30s")
    return sum(float(match["number"]) * _UNITS[match["unit"]] for match in found)
