"""Reading scenario files: a Chainsaw `Test`, preceded by a header that gives the cluster and the parameters.

apiVersion: kubeskew.io/v1alpha1        # the header, optional
kind: Scenario
spec:
  cluster: {version: ($versions.from), nodes: [...]}     # as `kubeskew up --config` reads it
  parameters:                                            # the matrix runs one cell per combination
    naming: [{name: explicit, …}, {name: implicit, …}]
    versions: [{name: 1.35-1.36-1.35, from: "1.35", to: "1.36"}]
    enabled: {subsets: [apiserver, scheduler]}           # all of them: none, apiserver, scheduler, all
  baseline: {enabled: all}                               # the cells the others are compared with
  expectedFailures:                                      # where upstream fails too, and why
  - {when: (contains($enabled.out, 'scheduler')), steps: [a new pod gets a device], reason: …}
---
apiVersion: chainsaw.kyverno.io/v1alpha1
kind: Test
metadata: {name: …}
spec:
  steps:
  - name: …
    try: [{apply: …}, {assert: …, continueOnError: true}, {upgrade: {to: ($versions.to)}}]
    - as: {user: system:serviceaccount:kube-system:d, extra: {authentication.kubernetes.io/node-name: n}}
      patch: {resource: …, subresource: status, expect: [{check: {($error): its whole message}}]}
    catch: []       # when an operation of the step failed
    finally: []     # after the step, whatever happened
    cleanup: []     # at the end of the test, whatever happened
"""

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from kubeskew.conformance.bindings import expression
from kubeskew.conformance.durations import seconds
from kubeskew.conformance.errors import ScenarioError
from kubeskew.conformance.scenario import (
    NOT_YET,
    RUN_KINDS,
    ExpectedFailure,
    Operation,
    Parameter,
    Scenario,
    Step,
    value_name,
)

CHAINSAW = "chainsaw.kyverno.io/v1alpha1"
HEADER = "kubeskew.io/v1alpha1"

_BESIDE_OPERATION = {"description", "continueOnError", "as"}
_USER_KEYS = {"user", "extra"}


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
    parsed = tuple(_step(step, index, source) for index, step in enumerate(steps))
    parameters = tuple(
        _parameter(name, values, source) for name, values in (header.get("parameters") or {}).items()
    )
    return Scenario(
        name=(test.get("metadata") or {}).get("name") or Path(source).stem,
        steps=parsed,
        description=spec.get("description") or "",
        cluster=header.get("cluster"),
        parameters=parameters,
        bindings=_bindings(spec),
        timeouts={name: seconds(text, source) for name, text in (spec.get("timeouts") or {}).items()},
        expected_failures=_expected_failures(header, {step.name for step in parsed}, source),
        baseline=_baseline(header, parameters, source),
    )


def _bindings(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry["value"] for entry in spec.get("bindings") or []}


def _parameter(name: Any, values: Any, source: str) -> Parameter:
    if not isinstance(name, str):
        raise ScenarioError(
            f"{source}: parameters: {name!r} is no name; YAML reads on, off, yes and no as booleans"
        )
    if isinstance(values, list) and values:
        return Parameter(name, tuple(values))
    members = values.get("subsets") if isinstance(values, dict) else None
    if not isinstance(members, list) or not members:
        raise ScenarioError(f"{source}: parameters.{name}: expected a list of values, or `subsets: [a, b]`")
    return Parameter(name, tuple(_subsets(members)), tuple(members))


def _subsets(members: list[str]) -> list[dict[str, Any]]:
    """Every subset, the larger first: `{name, in: […], out: […]}`."""
    found = []
    for size in range(len(members), -1, -1):
        for chosen in itertools.combinations(members, size):
            out = [each for each in members if each not in chosen]
            name = "all" if not out else "+".join(chosen) or "none"
            found.append({"name": name, "in": list(chosen), "out": out})
    return found


def _expected_failures(
    header: Mapping[str, Any], steps: set[str], source: str
) -> tuple[ExpectedFailure, ...]:
    found = []
    for index, entry in enumerate(header.get("expectedFailures") or []):
        where = f"{source}: expectedFailures[{index}]"
        when = expression(entry.get("when"))
        if when is None or not entry.get("reason") or not entry.get("steps"):
            raise ScenarioError(
                f"{where}: expected `when` (an expression in parentheses), `steps` and `reason`"
            )
        if unknown := set(entry["steps"]) - steps:
            raise ScenarioError(f"{where}.steps: there is no step {', '.join(sorted(unknown))}")
        sign = entry.get("found") or ""
        found.append(ExpectedFailure(when, tuple(entry["steps"]), entry["reason"], sign))
    return tuple(found)


def _baseline(header: Mapping[str, Any], parameters: tuple[Parameter, ...], source: str) -> Mapping[str, str]:
    found: Mapping[str, str] = header.get("baseline") or {}
    for name, value in found.items():
        known = [value_name(each) for each in next((p.values for p in parameters if p.name == name), ())]
        if value not in known:
            raise ScenarioError(
                f"{source}: baseline.{name}: {value} is none of {', '.join(known) or 'no values'}"
            )
    return found


def _step(step: Any, index: int, source: str) -> Step:
    where = f"{source}: spec.steps[{index}]"
    if not isinstance(step, dict) or not isinstance(step.get("try"), list):
        raise ScenarioError(f"{where}: expected a step with a `try` list")

    def block(name: str) -> tuple[Operation, ...]:
        operations = step.get(name) or []
        return tuple(_operation(each, f"{where}.{name}[{at}]") for at, each in enumerate(operations))

    return Step(
        step.get("name") or f"step {index + 1}",
        block("try"),
        block("catch"),
        block("finally"),
        block("cleanup"),
        _bindings(step),
    )


def _operation(value: Any, where: str) -> Operation:
    if not isinstance(value, dict):
        raise ScenarioError(f"{where}: expected a mapping with one operation")
    kinds = [key for key in value if key not in _BESIDE_OPERATION]
    if len(kinds) != 1:
        raise ScenarioError(f"{where}: expected one operation, found {', '.join(kinds) or 'none'}")
    kind = kinds[0]
    if kind in NOT_YET:
        raise ScenarioError(f"{where}: the operation {kind} is not supported yet")
    if kind not in RUN_KINDS:
        raise ScenarioError(f"{where}: unknown operation {kind}; known are {', '.join(RUN_KINDS)}")
    if not isinstance(value[kind], dict):
        raise ScenarioError(f"{where}.{kind}: expected a mapping")
    user = value.get("as")
    if user is not None and not (isinstance(user, dict) and user.get("user") and user.keys() <= _USER_KEYS):
        raise ScenarioError(f"{where}.as: expected `user`, and perhaps `extra`, found {user!r}")
    return Operation(
        kind, value[kind], where, value.get("description") or "", value.get("continueOnError") is True, user
    )
