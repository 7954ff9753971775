"""Reads scenario files: a Chainsaw `Test`, preceded by a header. docs/scenarios.md is the reference.

`parse` says what is wrong with a file by itself; `checking.py` then follows the names through its cells.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance import yaml_files
from kubeskew.conformance.chainsaw import unsupported
from kubeskew.conformance.chainsaw.expressions import expression
from kubeskew.conformance.checking import check_names
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.forks import check_forks, fork, is_fork
from kubeskew.conformance.grammar import (
    BESIDE_OPERATION,
    BINDING_KEYS,
    DOCUMENT_KEYS,
    EXPECT_KEYS,
    HEADER_KEYS,
    OPERATIONS,
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
from kubeskew.conformance.parameters import baseline, parameter
from kubeskew.conformance.scenario import Fork, Operation, Part, Repeat, Scenario, Step
from kubeskew.conformance.value_checking import check_values

CHAINSAW = "chainsaw.kyverno.io/v1alpha1"
HEADER = "kubeskew.io/v1alpha1"
_AFTER_TRY = ("catch", "finally", "cleanup")


def load(path: Path) -> Scenario:
    """The scenario in a file. Raises ScenarioError, also if there are several."""
    return parse(yaml_files.read(path), str(path))


def load_all(path: Path) -> list[Scenario]:
    """The scenarios in a file: of one without a header, each of its tests. Raises ScenarioError."""
    return parse_all(yaml_files.read(path), str(path))


def parse(documents: list[Any], source: str) -> Scenario:
    """The scenario in a file's documents: an optional header, then one Test."""
    header, tests = _sorted(documents, source)
    if len(tests) != 1:
        raise ScenarioError(f"{source}: expected one Test, found {len(tests)}")
    return _scenario(header, tests[0], source)


def parse_all(documents: list[Any], source: str) -> list[Scenario]:
    """The scenarios in a file's documents, of which several may be tests of Chainsaw's."""
    header, tests = _sorted(documents, source)
    if header is not None or len(tests) < 2:
        return [parse(documents, source)]
    return [_scenario(header, test, source) for test in tests]


def numbered(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Returns the scenarios, of which tests of Chainsaw's that have one name are told apart by numbers."""
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
    """The spec of a file's header, None without one, and its tests."""
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
    """The text, empty if there is none. Raises ScenarioError: YAML reads `name: off` as false."""
    if value is not None and not isinstance(value, str):
        raise ScenarioError(f"{where}: expected a text, found {value!r}; write it in quotes")
    return value or ""


def _bindings(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in _named(spec, "bindings", BINDING_KEYS, where)}


def _named(body: Mapping[str, Any], key: str, keys: tuple[str, ...], where: str) -> list[Mapping[str, Any]]:
    """The entries `{name, value}` of a list, and perhaps what they `match`."""
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
    """A step, steps that are repeated, or a step that forks the cluster."""
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
    """A part that may be repeated. Raises ScenarioError for a fork, which may not."""
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
    kinds = [key for key in value if key not in BESIDE_OPERATION]
    if "compiler" in kinds:
        check_keys({"compiler": value["compiler"]}, BESIDE_OPERATION, where)
    if len(kinds) != 1:
        raise ScenarioError(f"{where}: expected one operation, found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    if kind not in OPERATIONS and kind in unsupported.KEYS and kind in unsupported.INSTEAD:
        instead = unsupported.INSTEAD[kind]
        raise ScenarioError(f"{where}: Chainsaw's operation {kind} is not supported here: {instead}")
    if kind not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        raise ScenarioError(
            f"{where}: unknown operation {kind}; known are {known}{did_you_mean(kind, OPERATIONS)}"
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
