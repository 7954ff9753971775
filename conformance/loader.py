"""Reads scenario files: a Chainsaw `Test`, preceded by a header. docs/scenarios.md is the reference.

`parse` finds the mistakes of a file by itself; `validation.py` then follows the names through its cells. The
parameters of a header are lists of values, subsets of members and paths of versions. A fork is `fork`, alone
in its step, with the steps that `compare` its branches.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.catalogue.data import resource_rows
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.versions import Version
from kubeskew.conformance import chainsaw, grammar
from kubeskew.conformance.chainsaw import expression, seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.grammar import (
    BINDING_KEYS,
    BRANCH_KEYS,
    DIFFERENCE_KEYS,
    DOCUMENT_KEYS,
    EXPECT_KEYS,
    FORK_STEP_KEYS,
    HEADER_KEYS,
    OPERATION_SETTINGS,
    OPERATIONS,
    OUTCOME_KEYS,
    OUTPUT_KEYS,
    REPEAT_KEYS,
    STEP_KEYS,
    TEST_KEYS,
    TIMEOUT_KEYS,
    USER_KEYS,
    check_body,
    check_keys,
)
from kubeskew.conformance.marks import check_marks, exemptions, expected_failures
from kubeskew.conformance.operations import faults
from kubeskew.conformance.scenario import (
    BRANCH,
    NAMESPACE,
    Branch,
    Fork,
    Operation,
    Parameter,
    Part,
    Repeat,
    Scenario,
    Step,
    value_name,
)
from kubeskew.conformance.validation import check_names, check_values

_SHORTEST_PATH = 2
ReadOperation = Callable[[Any, str], Operation]
ReadBindings = Callable[[Mapping[str, Any], str], Mapping[str, Any]]
CHAINSAW = "chainsaw.kyverno.io/v1alpha1"
HEADER = "kubeskew.io/v1alpha1"
_AFTER_TRY = ("catch", "finally", "cleanup")


def parameter(name: Any, values: Any, where: str) -> Parameter:
    """One dimension of the matrix.

    `[a, b]` has these values, `{subsets: [a, b]}` every subset, `{path: ["1.34", "1.35", "1.34"]}` one
    path of versions and `{paths: [[…], […]]}` several. A value `{path: […]}` among others is a path, too.
    """
    if not isinstance(name, str):
        raise ScenarioError(f"{where}: {name!r} is no name; YAML reads on, off, yes and no as booleans")
    where = f"{where}.{name}"
    members: tuple[str, ...] = ()
    if isinstance(values, dict) and len(values) == 1 and isinstance(values.get("subsets"), list):
        members = tuple(map(str, values["subsets"]))
        values = list(_subsets(members)) if members else []
    elif isinstance(values, dict) and len(values) == 1 and isinstance(values.get("paths"), list):
        values = [{"path": path} for path in values["paths"]]
    elif isinstance(values, dict) and isinstance(values.get("path"), list):
        values = [values]
    if not isinstance(values, list) or not values:
        raise ScenarioError(
            f"{where}: expected a list of values, `subsets: [a, b]`, or `path: [version, version]`"
        )
    made = tuple(_value(value, f"{where}[{index}]") for index, value in enumerate(values))
    names = [value_name(value) for value in made]
    for text in names:
        if names.count(text) > 1:
            raise ScenarioError(f"{where}: two values are named {text}, so that two cells would be")
    return Parameter(name, made, members)


def _value(value: Any, where: str) -> Any:
    """A path of versions becomes a mapping with its name, ends and hops, for expressions."""
    if not isinstance(value, Mapping) or "path" not in value:
        return value
    path = value["path"]
    if not isinstance(path, list) or len(path) < _SHORTEST_PATH:
        raise ScenarioError(f"{where}.path: expected a list of at least two versions, found {path!r}")
    versions = [_version(entry, f"{where}.path") for entry in path]
    return {
        "name": "-".join(versions),
        "from": versions[0],
        "to": versions[1],
        "last": versions[-1],
        "hops": [_hop(before, after) for before, after in itertools.pairwise(versions)],
        **value,
        "path": versions,
    }


def _version(entry: Any, where: str) -> str:
    """YAML reads 1.34 as a number, and 1.30 as 1.3."""
    try:
        return str(Version.parse(str(entry)))
    except ValueError as error:
        hint = '; YAML reads 1.30 as the number 1.3: write "1.30"' if isinstance(entry, float) else ""
        raise ScenarioError(f"{where}: {error}{hint}") from error


def _hop(before: str, after: str) -> Mapping[str, str]:
    down = Version.parse(after) < Version.parse(before)
    direction = "downgrade" if down else "upgrade"
    return {"name": f"{before} to {after}", "from": before, "to": after, "direction": direction}


def _subsets(members: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """The larger subsets come first, each as `{name, in: […], out: […]}`."""
    for size in range(len(members), -1, -1):
        for chosen in itertools.combinations(members, size):
            out = [member for member in members if member not in chosen]
            name = "all" if not out else "+".join(chosen) or "none"
            yield {"name": name, "in": list(chosen), "out": out}


def baseline(header: Mapping[str, Any], parameters: tuple[Parameter, ...], source: str) -> Mapping[str, str]:
    """Maps a parameter to the name of the value with which the others are compared."""
    chosen = header.get("baseline") or {}
    if not isinstance(chosen, Mapping):
        raise ScenarioError(
            f"{source}: baseline: expected a mapping of parameters to names, found {chosen!r}"
        )
    for name, value in chosen.items():
        known = {value_name(v): None for p in parameters if p.name == name for v in p.values}
        if not isinstance(value, str) or value not in known:
            raise ScenarioError(
                f"{source}: baseline.{name}: {value} is none of {', '.join(known) or 'no values'}"
                + did_you_mean(str(value), known)
            )
    return chosen


def is_fork(step: Mapping[str, Any]) -> bool:
    operations = step.get("try")
    return isinstance(operations, list) and any(
        isinstance(each, dict) and "fork" in each for each in operations
    )


def fork(
    step: Mapping[str, Any], where: str, operation: ReadOperation, bindings: ReadBindings, blank: Step
) -> Fork:
    """`blank` is the step without its operation. Raises ScenarioError."""
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
    """Raises ScenarioError for a second fork, one that is repeated, or a comparison of missing branches."""
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


def load(path: Path) -> Scenario:
    """Raises ScenarioError, also if there are several scenarios."""
    with grammar.lines_of(path):
        return parse(grammar.read(path), str(path))


def load_all(path: Path) -> list[Scenario]:
    """A file without a header may have several tests, each a scenario. Raises ScenarioError."""
    with grammar.lines_of(path):
        header, tests = _sorted(documents := grammar.read(path), str(path))
        if header is not None or len(tests) < 2:
            return [parse(documents, str(path))]
    scenarios = []
    for number, test in enumerate(tests):
        with grammar.lines_of(path, number):
            scenarios.append(_scenario(header, test, str(path)))
    return scenarios


def parse(documents: list[Any], source: str) -> Scenario:
    header, tests = _sorted(documents, source)
    if len(tests) != 1:
        raise ScenarioError(f"{source}: expected one Test, found {len(tests)}")
    return _scenario(header, tests[0], source)


def numbered(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Tests of Chainsaw's that have one name are numbered."""
    found: list[Scenario] = []
    names: set[str] = set()
    for scenario in scenarios:
        name, count = scenario.name, 1
        while name in names and scenario.is_chainsaw:
            count += 1
            name = f"{scenario.name} #{count}"
        names.add(name)
        found.append(scenario if count == 1 else replace(scenario, name=name))
    return found


def _sorted(documents: list[Any], source: str) -> tuple[Mapping[str, Any] | None, list[Mapping[str, Any]]]:
    """None stands for a file without a header."""
    if not documents:
        raise ScenarioError(f"{source}: the file is empty: expected a {CHAINSAW} Test")
    headers: list[Mapping[str, Any]] = []
    tests: list[Mapping[str, Any]] = []
    for document in documents:
        kind = (document.get("apiVersion"), document.get("kind")) if isinstance(document, dict) else None
        if kind not in ((HEADER, "Scenario"), (CHAINSAW, "Test")):
            found = " ".join(map(str, kind)) if kind else repr(document)
            raise ScenarioError(f"{source}: expected a {HEADER} Scenario or a {CHAINSAW} Test, found {found}")
        check_keys(document, DOCUMENT_KEYS, f"{source}: {document['kind']}")
        (headers if document["kind"] == "Scenario" else tests).append(document)
    if len(headers) > 1:
        raise ScenarioError(f"{source}: expected one Scenario header, found {len(headers)}")
    if not headers:
        return None, tests
    return check_keys(headers[0].get("spec") or {}, HEADER_KEYS, f"{source}: the header's spec"), tests


def _scenario(head: Mapping[str, Any] | None, test: Mapping[str, Any], source: str) -> Scenario:
    header = head or {}
    spec = check_keys(test.get("spec") or {}, TEST_KEYS, f"{source}: spec")
    steps = spec.get("steps")
    if not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{source}: spec.steps: expected a list of steps")
    parameters = tuple(
        parameter(name, values, f"{source}: parameters")
        for name, values in _mapping(header.get("parameters"), f"{source}: parameters").items()
    )
    metadata = _mapping(test.get("metadata"), f"{source}: metadata")
    _check_template(spec, f"{source}: spec")
    catch = _block(spec, "catch", f"{source}: spec")
    parts = tuple(_part(step, index, f"{source}: spec.steps[{index}]") for index, step in enumerate(steps))
    scenario = Scenario(
        name=_text(metadata.get("name"), f"{source}: metadata.name") or Path(source).stem,
        parts=tuple(part.catching(catch) for part in parts) if catch else parts,
        description=_text(spec.get("description"), f"{source}: spec.description"),
        cluster=header.get("cluster"),
        parameters=parameters,
        bindings=_bindings(spec, f"{source}: spec.bindings"),
        timeouts=_timeouts(spec, f"{source}: spec.timeouts"),
        expected_failures=expected_failures(header, source),
        exemptions=exemptions(header, source),
        baseline=baseline(header, parameters, source),
        source=source,
        namespace=_text(spec.get("namespace"), f"{source}: spec.namespace"),
        is_chainsaw=head is None,
        concurrent=spec.get("concurrent") is not False,
        keeps_objects=spec.get("skipDelete") is True,
    )
    check_forks(scenario)
    check_marks(scenario, source)
    _check_needs(scenario, source)
    check_names(scenario)
    return scenario


def _timeouts(body: Mapping[str, Any], where: str) -> dict[str, float]:
    given = check_keys(body.get("timeouts") or {}, TIMEOUT_KEYS, where)
    return {name: seconds(text, f"{where}.{name}") for name, text in given.items()}


def _check_template(body: Mapping[str, Any], where: str) -> None:
    if body.get("template", True) is not True:
        raise ScenarioError(
            f"{where}: Chainsaw's `template: {str(body['template']).lower()}` is not supported here: "
            "expressions are evaluated; write a text in parentheses as \\(text)\\"
        )


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ScenarioError(f"{where}: expected a mapping, found {value!r}")
    return value or {}


def _text(value: Any, where: str) -> str:
    """Missing text is empty. Raises ScenarioError: YAML reads `name: off` as false."""
    if value is not None and not isinstance(value, str):
        raise ScenarioError(f"{where}: expected a text, found {value!r}; write it in quotes")
    return value or ""


def _bindings(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in _named(spec, "bindings", BINDING_KEYS, where)}


def _named(body: Mapping[str, Any], key: str, keys: tuple[str, ...], where: str) -> list[Mapping[str, Any]]:
    """Entries are `{name, value}`, and perhaps `match`."""
    entries = body.get(key) or []
    if not isinstance(entries, list):
        raise ScenarioError(f"{where}: expected a list of `name` and `value`, found {entries!r}")
    for index, entry in enumerate(entries):
        if not {"name", "value"} <= check_keys(entry, keys, f"{where}[{index}]").keys():
            raise ScenarioError(f"{where}[{index}]: expected `name` and `value`")
        if expression(_text(entry["name"], f"{where}[{index}].name")) is not None:
            raise ScenarioError(f"{where}[{index}].name: Chainsaw's computed names are not supported here")
    return entries


def _check_needs(scenario: Scenario, source: str) -> None:
    """Raises ScenarioError if a step needs one that is not before it."""
    before: list[str] = []
    for index, step in enumerate(scenario.steps):
        for name in step.needs:
            if name not in before:
                raise ScenarioError(
                    f"{source}: spec.steps[{index}].needs: there is no step {name!r} before {step.name!r}"
                    + did_you_mean(name, before)
                )
        before.append(step.name)


def _part(value: Any, index: int, where: str) -> Part:
    if not isinstance(value, dict) or "forEach" not in value:
        if isinstance(value, dict) and is_fork(value):
            blank = _step({**value, "try": []}, index, where)
            return fork(value, where, _operation, _bindings, blank)
        return _step(value, index, where)
    check_keys(value, REPEAT_KEYS, where)
    loop, steps = value["forEach"], value.get("steps")
    if not isinstance(loop, dict) or len(loop) != 1 or not isinstance(steps, list) or not steps:
        raise ScenarioError(f"{where}: expected `forEach: {{NAME: (LIST)}}` and `steps`")
    [(name, items)] = loop.items()
    text = expression(items)
    if text is None:
        raise ScenarioError(f"{where}.forEach.{name}: expected an expression in parentheses, found {items!r}")
    members = tuple(_repeated(step, at, f"{where}.steps[{at}]") for at, step in enumerate(steps))
    return Repeat(name, text, members, where)


def _repeated(value: Any, index: int, where: str) -> Step | Repeat:
    """Raises ScenarioError for a fork, which may not be repeated."""
    part = _part(value, index, where)
    if isinstance(part, Fork):
        raise ScenarioError(f"{where}: a `fork` cannot be in a `forEach`")
    return part


def _step(step: Any, index: int, where: str) -> Step:
    if not isinstance(step, dict):
        raise ScenarioError(f"{where}: expected a step with a `try` list")
    check_keys(step, STEP_KEYS, where)
    if not isinstance(step.get("try"), list) and ("try" in step or not step.keys() & {*_AFTER_TRY}):
        raise ScenarioError(f"{where}: expected a step with a `try` list")
    _check_template(step, where)
    needs = step.get("needs") or []
    needs = [needs] if isinstance(needs, str) else needs
    if not isinstance(needs, list) or not all(isinstance(name, str) for name in needs):
        raise ScenarioError(
            f"{where}.needs: expected the name of a step, or a list of names, found {needs!r}"
        )
    return Step(
        _text(step.get("name"), f"{where}.name") or f"step {index + 1}",
        operations=_block(step, "try", where),
        catch=_block(step, "catch", where),
        finally_=_block(step, "finally", where),
        cleanup=_block(step, "cleanup", where),
        bindings=_bindings(step, f"{where}.bindings"),
        needs=tuple(needs),
        timeouts=_timeouts(step, f"{where}.timeouts"),
    )


def _block(body: Mapping[str, Any], name: str, where: str) -> tuple[Operation, ...]:
    operations = body.get(name) or []
    if not isinstance(operations, list):
        raise ScenarioError(f"{where}.{name}: expected a list of operations")
    return tuple(_operation(entry, f"{where}.{name}[{at}]") for at, entry in enumerate(operations))


def _operation(value: Any, where: str) -> Operation:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: expected a mapping with one operation")
    kinds = [key for key in value if key not in OPERATION_SETTINGS]
    if "compiler" in kinds:
        check_keys({"compiler": value["compiler"]}, OPERATION_SETTINGS, where)
    if len(kinds) != 1:
        raise ScenarioError(f"{where}: expected one operation, found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    if kind not in OPERATIONS and kind in chainsaw.KEYS and kind in chainsaw.INSTEAD:
        instead = chainsaw.INSTEAD[kind]
        raise ScenarioError(f"{where}: Chainsaw's operation {kind} is not supported here: {instead}", kind)
    if kind not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ScenarioError(
            f"{where}: unknown operation {kind}; known are {known}{did_you_mean(kind, OPERATIONS)}", kind
        )
    body, user = value[kind], value.get("as")
    if not isinstance(body, dict):
        raise ScenarioError(f"{where}.{kind}: expected a mapping")
    check_body(kind, body, f"{where}.{kind}")
    if kind == "fault":
        faults.check(body, f"{where}.fault")
    _named(body, "outputs", OUTPUT_KEYS, f"{where}.{kind}.outputs")
    _named(body, "bindings", BINDING_KEYS, f"{where}.{kind}.bindings")
    _check_template(body, f"{where}.{kind}")
    expected = body.get("expect") or []
    if not isinstance(expected, list):
        raise ScenarioError(f"{where}.{kind}.expect: expected a list of `match` and `check`")
    for index, entry in enumerate(expected):
        check_keys(entry, EXPECT_KEYS, f"{where}.{kind}.expect[{index}]")
    if user is not None and not (isinstance(user, dict) and user.get("user") and user.keys() <= {*USER_KEYS}):
        raise ScenarioError(f"{where}.as: expected `user`, and perhaps `group` and `extra`, found {user!r}")
    check_values(kind, body, f"{where}.{kind}")
    return Operation(
        kind,
        body,
        where,
        _text(value.get("description"), f"{where}.description"),
        value.get("continueOnError") is True,
        user,
        _text(value.get("through"), f"{where}.through"),
    )
