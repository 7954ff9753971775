"""Follows the names of a scenario through its cells, before a cluster is started.

An expression may use parameters, bindings, and what earlier operations bound. What is wrong is told once, for
the file, whatever number of cells it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance import yaml_files
from kubeskew.conformance.bindings import check_expression, expressions_in, names_of
from kubeskew.conformance.chainsaw import unsupported
from kubeskew.conformance.chainsaw.expressions import bound_below, expression
from kubeskew.conformance.chainsaw.files import named_files
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import FROM_FILES, RESULT_NAMES
from kubeskew.conformance.scenario import (
    BRANCH,
    NAMESPACE,
    Cell,
    Fork,
    Operation,
    Part,
    Repeat,
    Scenario,
    Step,
)


def check_names(scenario: Scenario) -> None:
    """Raises ScenarioError with the place of an expression whose names or fields cannot be there."""
    source = scenario.source
    known = [NAMESPACE, *(parameter.name for parameter in scenario.parameters)]
    for name, value in scenario.bindings.items():
        _check(value, known, f"{source}: spec.bindings: {name}")
        known.append(name)
    _check(scenario.cluster, known, f"{source}: cluster")
    _check_parts(scenario.parts, known, source)
    for cell in scenario.cells():
        _check_cell(cell)


def _check_parts(parts: Sequence[Part], known: list[str], source: str) -> None:
    """Follows the names in the order in which steps are run; `known` grows by what they bind."""
    for part in parts:
        if isinstance(part, Fork):
            for branch in part.branches:
                for name, value in branch.bindings.items():
                    _check(value, known, f"{part.where}: the bindings of the branch {branch.name!r}: {name}")
            known += [BRANCH, *part.branches[0].bindings]
            _check_parts([*part.steps()], known, source)
        elif isinstance(part, Repeat):
            _check(f"({part.items})", known, f"{part.where}.forEach")
            known.append(part.name)
            _check_parts(part.members, known, source)
        else:
            _check_step(part, known, source)


def _check_step(step: Step, known: list[str], source: str) -> None:
    for name, value in step.bindings.items():
        _check(value, known, f"{source}: the bindings of the step {step.name!r}: {name}")
        known.append(name)
    for operation in step.all_operations():
        for place, value in _values(operation):
            own = [*bound_below(value), *RESULT_NAMES.get((operation.kind, place.rpartition(".")[2]), ())]
            own += [*operation.bindings, *(operation.outputs if place.endswith(".outputs") else ())]
            _check(value, [*own, *known], f"{operation.where}.{place}")
        for place, value in _in_files(operation):
            own = [*bound_below(value), *operation.bindings]
            _check(value, [*own, *known], f"{operation.where}.{place}")
            _check_fields(value, {}, f"{operation.where}.{place}")
        known += operation.outputs


def _values(operation: Operation) -> Iterator[tuple[str, Any]]:
    """The values that may hold expressions, with their places."""
    for key, value in operation.body.items():
        yield f"{operation.kind}.{key}", value
    yield "as", operation.user
    yield "through", operation.through


def _in_files(operation: Operation) -> Iterator[tuple[str, Any]]:
    """The documents of the files whose names are given, with their places."""
    name = operation.body.get("file")
    if operation.kind in FROM_FILES and isinstance(name, str) and expression(name) is None:
        for path in named_files(operation.where, name):
            yield f"{operation.kind}.file: {path.name}", yaml_files.read(path)


def _check(value: Any, known: Sequence[str], where: str) -> None:
    for text in expressions_in(value):
        for name in names_of(text):
            if name not in known:
                bound = ", ".join(f"${other}" for other in known)
                if instead := unsupported.BINDINGS.get(name):
                    raise ScenarioError(
                        f"{where}: ({text}): Chainsaw's binding ${name} is not supported here: {instead}"
                    )
                raise ScenarioError(
                    f"{where}: ({text}): nothing is bound to ${name} here; "
                    f"bound are {bound}{did_you_mean(name, known, '$')}"
                )


def _check_cell(cell: Cell) -> None:
    """Raises ScenarioError for an expression that cannot be read, or a field that a value lacks.

    What operations bind is not known yet; what the file gives is.
    """
    source = cell.scenario.source
    try:
        bindings = cell.bindings()
        steps = cell.steps()
        marks, exemptions = cell.expected_failures(), cell.exemptions()
    except ScenarioError as error:
        raise ScenarioError(f"{source}: {error}") from error
    if both := sorted(marks.keys() & exemptions.keys()):
        raise ScenarioError(f"{source}: {cell.name}: {both[0]!r} is in expectedFailures and in notRun")
    _check_fields(cell.scenario.cluster, bindings, f"{source}: cluster")
    for step in steps:
        own = {**bindings, **step.loop}
        for operation in step.all_operations():
            for place, value in _values(operation):
                hidden = {*bound_below(value), *operation.bindings}
                seen = {name: bound for name, bound in own.items() if name not in hidden}
                _check_fields(value, seen, f"{operation.where}.{place}")
            for name in operation.outputs:
                own.pop(name, None)
                bindings.pop(name, None)


def _check_fields(value: Any, bindings: Mapping[str, Any], where: str) -> None:
    for text in expressions_in(value):
        try:
            check_expression(text, bindings)
        except ScenarioError as error:
            raise ScenarioError(f"{where}: {error}") from error
