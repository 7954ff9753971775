"""Validates a scenario's operations before a cluster is started: names, and values in bodies.

An expression may use parameters, bindings, and the outputs of earlier operations. A mistake is reported once,
for the file, for any number of cells. Values are checked as far as the file gives them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from kubeskew.apimachinery.imported_releases import Imported, imported_releases
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.conformance import chainsaw, grammar
from kubeskew.conformance.bindings import check_expression, expressions_in, names_of
from kubeskew.conformance.chainsaw import bound_below, expression, json_path, named_files, parse_key
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import (
    CONDITION_KEYS,
    ENVIRONMENT_KEYS,
    FROM_FILES,
    JSON_PATH_KEYS,
    REFERENCE_KEYS,
    RESULT_NAMES,
    SCALE_UP_KEYS,
    WAIT_KEYS,
    check_keys,
)
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

_WRITES = frozenset({"apply", "create", "update", "patch"})
_ASSERTIONS = frozenset({"assert", "error"})
_PROGRAMS = frozenset({"script", "command"})
_MATCHING = frozenset({"podLogs", "exec"})
_ALTERNATIVES = {"simulate": ("scaleUp", "scaleDown"), "audit": ("for", "to")}


def check_values(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Raises ScenarioError with the place of an impossible value; expressions are left to the run."""
    if kind in _WRITES | _ASSERTIONS:
        _check_object(kind, body, where)
    elif kind == "delete":
        _check_deletion(body, where)
    elif kind == "wait":
        _check_wait(body["for"], f"{where}.for")
    elif kind in _MATCHING:
        for key in ("matches", "lacks"):
            _check_pattern(body.get(key), f"{where}.{key}")
    elif kind in _ALTERNATIVES:
        _check_question(body, _ALTERNATIVES[kind], where)
    elif kind in _PROGRAMS:
        for index, entry in enumerate(body.get("env") or []):
            check_keys(entry, ENVIRONMENT_KEYS, f"{where}.env[{index}]")


def _check_question(body: Mapping[str, Any], keys: tuple[str, str], where: str) -> None:
    one, other = keys
    if (one in body) == (other in body):
        raise ScenarioError(f"{where}: expected either `{one}` or `{other}`")
    if "scaleUp" in body:
        check_keys(body["scaleUp"], SCALE_UP_KEYS, f"{where}.scaleUp")


def _check_either(body: Mapping[str, Any], key: str, where: str) -> None:
    """Raises ScenarioError unless the body has the key or `file`, and for a file that is not there."""
    if (key in body) == ("file" in body):
        raise ScenarioError(f"{where}: expected either `{key}` or `file`")
    if isinstance(body.get("file"), str) and expression(body["file"]) is None:
        named_files(where, body["file"])


def _check_object(kind: str, body: Mapping[str, Any], where: str) -> None:
    _check_either(body, "resource", where)
    if "resource" not in body or expression(body["resource"]) is not None:
        return
    resource = body["resource"]
    if kind in _ASSERTIONS and is_of_bindings(resource):
        return
    if not isinstance(resource, Mapping) or not resource.get("apiVersion") or not resource.get("kind"):
        raise ScenarioError(f"{where}.resource: expected an object with `apiVersion` and `kind`")
    if not body.get("expect"):  # else it may be meant to be refused
        _check_kind(resource["apiVersion"], resource["kind"], f"{where}.resource")


def is_of_bindings(resource: Any) -> bool:
    """An assertion without an object compares values of expressions: `($found.size): 2`."""
    return (
        isinstance(resource, Mapping)
        and bool(resource)
        and not resource.keys() & {"apiVersion", "kind"}
        and all(isinstance(key, str) and parse_key(key).is_expression for key in resource)
    )


@cache
def _kinds(_imported: tuple[tuple[str, Imported], ...]) -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Kinds of all releases by group and version; other groups are custom ones."""
    from kubeskew.apimachinery.catalogue import data

    kinds: dict[str, dict[str, frozenset[str]]] = {}
    for row in data.resource_rows():
        versions = kinds.setdefault(row["g"], {})
        versions[row["v"]] = versions.get(row["v"], frozenset()) | {row["k"]}
    return kinds


def _check_kind(api_version: Any, kind: Any, where: str) -> None:
    """Raises ScenarioError for a kind that no release has in one of Kubernetes' own groups."""
    if not isinstance(api_version, str) or not isinstance(kind, str):
        raise ScenarioError(f"{where}: expected texts as `apiVersion` and `kind`")
    if expression(api_version) is not None or expression(kind) is not None:
        return
    group, _, version = api_version.rpartition("/")
    versions = _kinds(tuple(imported_releases().items())).get(group)
    if versions is None:
        return
    if version not in versions:
        known = ", ".join(f"{group}/{name}".lstrip("/") for name in sorted(versions))
        raise ScenarioError(f"{where}.apiVersion: no release serves {api_version}; known are {known}")
    if kind not in versions[version]:
        hint = did_you_mean(kind, sorted(versions[version]))
        raise ScenarioError(f"{where}.kind: no release has a {kind} in {api_version}{hint}")


def _check_deletion(body: Mapping[str, Any], where: str) -> None:
    _check_either(body, "ref", where)
    if "ref" in body:
        _check_reference(body["ref"], f"{where}.ref")


def _check_reference(ref: Any, where: str) -> None:
    check_keys(ref, REFERENCE_KEYS, where)
    if not ref.get("apiVersion") or not ref.get("kind"):
        raise ScenarioError(f"{where}: expected `apiVersion` and `kind`")


def _check_wait(condition: Any, where: str) -> None:
    check_keys(condition, WAIT_KEYS, where)
    if len(condition) != 1:
        raise ScenarioError(f"{where}: expected {' or '.join(f'`{key}`' for key in WAIT_KEYS)}")
    if "jsonPath" in condition:
        path = check_keys(condition["jsonPath"], JSON_PATH_KEYS, f"{where}.jsonPath").get("path")
        if not isinstance(path, str) or (expression(path) is None and json_path(path) is None):
            raise ScenarioError(
                f"{where}.jsonPath.path: expected a path of names, such as {{.status.phase}}, "
                f"found {path!r}: write an `assert` for what is more"
            )
    if "condition" in condition and not check_keys(
        condition["condition"], CONDITION_KEYS, f"{where}.condition"
    ).get("name"):
        raise ScenarioError(f"{where}.condition: expected `name`")


def _check_pattern(pattern: Any, where: str) -> None:
    if pattern is None or expression(pattern):
        return
    try:
        re.compile(str(pattern))
    except re.error as error:
        raise ScenarioError(f"{where}: {pattern!r} is not a regular expression: {error}") from error


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
    """Steps are followed in the order in which they are run; `known` grows by the names that they bind."""
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
    for key, value in operation.body.items():
        yield f"{operation.kind}.{key}", value
    yield "as", operation.user
    yield "through", operation.through


def _in_files(operation: Operation) -> Iterator[tuple[str, Any]]:
    """Documents of files come with their places; a name that is an expression is left out."""
    name = operation.body.get("file")
    if operation.kind in FROM_FILES and isinstance(name, str) and expression(name) is None:
        for path in named_files(operation.where, name):
            yield f"{operation.kind}.file: {path.name}", grammar.read(path)


def _check(value: Any, known: Sequence[str], where: str) -> None:
    for text in expressions_in(value):
        for name in names_of(text):
            if name not in known:
                bound = ", ".join(f"${other}" for other in known)
                if instead := chainsaw.BINDINGS.get(name):
                    raise ScenarioError(
                        f"{where}: ({text}): Chainsaw's binding ${name} is not supported here: {instead}"
                    )
                raise ScenarioError(
                    f"{where}: ({text}): nothing is bound to ${name} here; "
                    f"bound are {bound}{did_you_mean(name, known, '$')}"
                )


def _check_cell(cell: Cell) -> None:
    """Raises ScenarioError for an expression that cannot be read, or a field that a value lacks.

    Outputs of operations are not known yet, values of the file are.
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
