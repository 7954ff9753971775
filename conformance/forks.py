"""Reads the fork of a scenario file: `fork`, alone in its step, and the steps that `compare` its branches."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.catalogue.data import resource_rows
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import (
    BRANCH_KEYS,
    DIFFERENCE_KEYS,
    FORK_STEP_KEYS,
    OUTCOME_KEYS,
    check_body,
    check_keys,
)
from kubeskew.conformance.scenario import (
    BRANCH,
    NAMESPACE,
    Branch,
    Fork,
    Operation,
    Part,
    Repeat,
    Scenario,
    Step,
)

ReadOperation = Callable[[Any, str], Operation]
ReadBindings = Callable[[Mapping[str, Any], str], Mapping[str, Any]]


def is_fork(step: Mapping[str, Any]) -> bool:
    """Returns whether a step of the file forks the cluster."""
    operations = step.get("try")
    return isinstance(operations, list) and any(
        isinstance(each, dict) and "fork" in each for each in operations
    )


def fork(
    step: Mapping[str, Any], where: str, operation: ReadOperation, bindings: ReadBindings, blank: Step
) -> Fork:
    """Returns the fork of a step; `blank` is the step without its operation. Raises ScenarioError."""
    check_keys(step, FORK_STEP_KEYS, where)
    place = f"{where}.try[0].fork"
    if len(step["try"]) != 1:
        raise ScenarioError(f"{where}: a `fork` stands alone in its step")
    check_keys(step["try"][0], ("fork", "description"), f"{where}.try[0]")
    body = step["try"][0]["fork"]
    if not isinstance(body, Mapping):
        raise ScenarioError(f"{place}: expected a mapping with branches, found {body!r}")
    check_body("fork", body, place)
    entries = body["branches"]
    if not isinstance(entries, list) or len(entries) < 2:
        raise ScenarioError(f"{place}.branches: expected a list of two branches or more, found {entries!r}")
    branches = tuple(
        _branch(entry, f"{place}.branches[{at}]", operation, bindings) for at, entry in enumerate(entries)
    )
    names = [branch.name for branch in branches]
    if len({*names}) < len(names):
        raise ScenarioError(f"{place}.branches: two have one name; found {', '.join(names)}")
    for branch in branches[1:]:
        if branch.bindings.keys() != branches[0].bindings.keys():
            pair = f"{names[0]!r} and {branch.name!r}"
            raise ScenarioError(f"{place}.branches: all have to bind the same names; {pair} do not")
    made = Operation("fork", {"branches": names}, place, str(step["try"][0].get("description") or ""))
    return Fork(Step(blank.name, (made,), needs=blank.needs), branches, where)


def _branch(entry: Any, where: str, operation: ReadOperation, bindings: ReadBindings) -> Branch:
    check_keys(entry, BRANCH_KEYS, where)
    name, operations = entry.get("name"), entry.get("try") or []
    if not isinstance(name, str) or not name:
        raise ScenarioError(f"{where}.name: expected a text, found {name!r}")
    if not isinstance(operations, list):
        raise ScenarioError(f"{where}.try: expected a list of operations")
    bound = bindings(entry, f"{where}.bindings")
    if taken := [each for each in bound if each in {BRANCH, NAMESPACE}]:
        raise ScenarioError(f"{where}.bindings: ${taken[0]} is bound already")
    return Branch(
        name, tuple(operation(each, f"{where}.try[{at}]") for at, each in enumerate(operations)), bound
    )


def check_forks(scenario: Scenario) -> None:
    """Raises ScenarioError for a second fork, one that is repeated, or a comparison of what is not there."""
    found: Fork | None = None
    for part in scenario.parts:
        if isinstance(part, Fork):
            if found is not None:
                raise ScenarioError(f"{part.where}: the cluster is forked already, at {found.where}")
            found = part
        for step in part.steps():
            _check_step(step, part, found)
    if found is not None and scenario.baseline:
        raise ScenarioError(
            f"{scenario.source}: baseline: of a scenario with a fork the branches are compared"
        )


def _check_step(step: Step, part: Part, fork: Fork | None) -> None:
    for operation in step.all_operations():
        if operation.kind == "fork" and not isinstance(part, Fork):
            raise ScenarioError(
                f"{operation.where}: a `fork` stands alone in a step's `try`, and not in a `forEach`"
            )
        if operation.kind != "compare":
            continue
        if fork is None or isinstance(part, Fork | Repeat):
            raise ScenarioError(
                f"{operation.where}: a `compare` stands in a step of its own, behind a `fork`"
            )
        if [*step.all_operations()] != [operation] or step.bindings:
            raise ScenarioError(f"{operation.where}: a `compare` stands alone in its step")
        _check_comparison(operation, [branch.name for branch in fork.branches])


def _check_comparison(operation: Operation, branches: Sequence[str]) -> None:
    where, body = f"{operation.where}.compare", operation.body
    chosen = body.get("branches", branches)
    if not isinstance(chosen, list) or len(chosen) < 2:
        raise ScenarioError(f"{where}.branches: expected two branches or more, found {chosen!r}")
    for name in chosen:
        _check_branch(name, branches, f"{where}.branches")
    _check_resources(body.get("resources") or [], f"{where}.resources")
    for key, keys in (("differences", DIFFERENCE_KEYS), ("outcomes", OUTCOME_KEYS)):
        entries = body.get(key) or []
        if not isinstance(entries, list):
            raise ScenarioError(f"{where}.{key}: expected a list, found {entries!r}")
        for at, entry in enumerate(entries):
            check_keys(entry, keys, f"{where}.{key}[{at}]")
            if not isinstance(entry.get(keys[0]), str):
                raise ScenarioError(f"{where}.{key}[{at}]: expected `{keys[0]}`")
            values = entry.get("values") or {}
            if not isinstance(values, Mapping):
                raise ScenarioError(
                    f"{where}.{key}[{at}].values: expected a mapping of branches, found {values!r}"
                )
            for name in values:
                _check_branch(name, chosen, f"{where}.{key}[{at}].values")


def _check_resources(resources: Any, where: str) -> None:
    """Raises ScenarioError for a resource that no release has; one with its group may be custom."""
    if not isinstance(resources, list):
        raise ScenarioError(f"{where}: expected a list of resources, found {resources!r}")
    known = sorted({row["r"] for row in resource_rows()})
    for name in resources:
        if name not in known and "." not in str(name):
            raise ScenarioError(f"{where}: no release has a resource {name}{did_you_mean(str(name), known)}")


def _check_branch(name: Any, branches: Sequence[str], where: str) -> None:
    if name not in branches:
        hint = did_you_mean(str(name), branches)
        raise ScenarioError(f"{where}: there is no branch {name}; there are {', '.join(branches)}{hint}")
