"""Scenarios as data: what a file says, not yet bound to a cell's parameters. `loading.py` reads files."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.conformance.bindings import evaluate

OBJECT_OPERATIONS = (
    *("apply", "create", "patch", "delete", "assert", "error", "wait", "podLogs", "observe"),
    *("script", "sleep"),
)
CLUSTER_OPERATIONS = (
    *("upgrade", "downgrade", "gates", "restart", "kill", "driver", "metric"),
    *("undisturbed", "prepared"),
)
RUN_KINDS = (*OBJECT_OPERATIONS, *CLUSTER_OPERATIONS)
NOT_YET = ("fork",)


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of a `try` list. `where` names it in messages."""

    kind: str
    body: Mapping[str, Any]
    where: str
    description: str = ""
    continue_on_error: bool = False  # its failure fails the cell, but what follows runs
    user: Mapping[str, Any] | None = None  # as whom: `{user, extra}`; else as the administrator

    @property
    def title(self) -> str:
        return self.description or self.kind

    @property
    def about(self) -> str:
        """Kind and name of what it is done to, as far as the file says them: `Pod newcomer`."""
        body = self.body.get("resource") or self.body.get("ref") or self.body
        metadata = body.get("metadata") or body
        known = body.get("kind"), metadata.get("name"), body.get("component"), body.get("node")
        return " ".join(each for each in known if isinstance(each, str))


@dataclass(frozen=True, slots=True)
class Step:
    """Named operations, run in order until one fails.

    Then `catch`; whatever happened `finally_`; at the end of the cell `cleanup`.
    """

    name: str
    operations: tuple[Operation, ...]
    catch: tuple[Operation, ...] = ()
    finally_: tuple[Operation, ...] = ()
    cleanup: tuple[Operation, ...] = ()
    bindings: Mapping[str, Any] = field(default_factory=dict)

    def all_operations(self) -> Iterator[Operation]:
        yield from (*self.operations, *self.catch, *self.finally_, *self.cleanup)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One dimension of the matrix: a name and the values it takes.

    Where the values are all subsets of some members (`subsets: [apiserver, scheduler]`), these are `members`.
    """

    name: str
    values: tuple[Any, ...]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExpectedFailure:
    """Steps that fail as upstream fails, in the cells whose parameters satisfy `when` (an expression).

    `found` is a part of what they find then.
    """

    when: str
    steps: tuple[str, ...]
    reason: str
    found: str = ""

    def applies(self, parameters: Mapping[str, Any]) -> bool:
        return bool(evaluate(self.when, parameters))


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
    expected_failures: tuple[ExpectedFailure, ...] = ()
    baseline: Mapping[str, str] = field(
        default_factory=dict
    )  # parameter → the value the others are held against

    @property
    def needs_cluster(self) -> bool:
        """Returns whether it uses an operation that only a cluster of ours can do."""
        kinds = {operation.kind for step in self.steps for operation in step.all_operations()}
        return bool(kinds & set(CLUSTER_OPERATIONS))

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
        return self._named({})

    @property
    def baseline(self) -> str | None:
        """The name of the cell this one is held against: the same but for the baseline's parameters."""
        if not self.scenario.baseline:
            return None
        name = self._named(self.scenario.baseline)
        return None if name == self.name else name

    def _named(self, instead: Mapping[str, str]) -> str:
        labels = [instead.get(name, value_name(value)) for name, value in self.parameters.items()]
        return "/".join([self.scenario.name, *labels])

    def expected_failures(self) -> Mapping[str, ExpectedFailure]:
        """The steps that are to fail in this cell, and how upstream fails there."""
        found: dict[str, ExpectedFailure] = {}
        for each in self.scenario.expected_failures:
            if each.applies(self.parameters):
                for step in each.steps:
                    found.setdefault(step, each)
        return found


def value_name(value: Any) -> str:
    """Returns the name of a parameter's value: its `name`, or itself."""
    return str(value["name"] if isinstance(value, Mapping) and "name" in value else value)
