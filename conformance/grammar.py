"""Keys that scenario files may have, by their place, and the YAML of scenarios and profiles.

Other keys are refused when the file is read, so that no misspelt key is ignored in silence. Mistakes in the
YAML are the scenario's.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from kubeskew.apimachinery.faults.syntax import KEYS as FAULT_KEYS
from kubeskew.apimachinery.known_names import did_you_mean
from kubeskew.apimachinery.schema_checks import SchemaError, check
from kubeskew.apimachinery.yaml_files import child, compose, explain, load_checked, with_line
from kubeskew.conformance import chainsaw
from kubeskew.conformance.errors import ScenarioError
from kubeskew.kubelet.drivers.switches import SWITCHES

IGNORES_READ_ERRORS = "ignoreStoreReadErrorWithClusterBreakingPotential"  # metav1.DeleteOptions


def documents(text: str, source: str) -> list[Any]:
    """Empty documents are left out. Raises ScenarioError that names `source`."""
    try:
        return [value for value in load_checked(text) if value is not None]
    except yaml.YAMLError as error:
        raise ScenarioError(explain(error, source)) from error


def read(path: Path) -> list[Any]:
    """Raises ScenarioError with the file, and the line of the mistake."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ScenarioError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"cannot read {path}: it is not UTF-8") from error
    return documents(text, str(path))


@contextmanager
def lines_of(path: Path, number: int = 0) -> Iterator[None]:
    """A ScenarioError of the file gets the line of its place. Of several tests, `number` is the one meant."""
    try:
        yield
    except ScenarioError as error:
        try:
            nodes = compose(path.read_text())
        except (OSError, UnicodeDecodeError, yaml.YAMLError):
            raise error from None
        error.args = (with_line(str(error), str(path), _parts(nodes, number), error.key),)
        raise


def _parts(nodes: Iterable[yaml.Node], number: int) -> list[yaml.Node]:
    """Places of one scenario are in its test, in the spec of the header, or in the document itself."""
    nodes = [*nodes]
    tests = [node for node in nodes if _kind(node) == "Test"]
    others = [node for node in nodes if _kind(node) != "Test"]
    headers = [spec for node in others if _kind(node) == "Scenario" and (spec := child(node, "spec"))]
    return [*tests[number : number + 1], *headers, *others]


def _kind(node: yaml.Node) -> Any:
    kind = child(node, "kind")
    return kind.value if kind is not None else None


@dataclass(frozen=True, slots=True)
class Shape:
    """Keys of an operation's body.

    `of_cluster` marks operations that only a cluster of ours can do.
    """

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    of_cluster: bool = False

    @property
    def keys(self) -> list[str]:
        return sorted(self.required | self.optional)


def _shape(required: str, optional: str = "", *, of_cluster: bool = False) -> Shape:
    return Shape(frozenset(required.split()), frozenset(optional.split()), of_cluster)


_WRITTEN = "resource file expect outputs bindings template timeout"
_SELECTED = "name namespace selector timeout"
_PROGRAM = "env check outputs bindings skipLogOutput skipCommandOutput workDir timeout"

# The operations of a `try` list. The runner has a function for each (`RUN` in conformance/runner.py).
OPERATIONS: Mapping[str, Shape] = {
    "apply": _shape("", f"{_WRITTEN} subresource fieldManager"),
    "create": _shape("", _WRITTEN),
    "update": _shape("", _WRITTEN),
    "patch": _shape("", f"{_WRITTEN} subresource"),
    "delete": _shape(
        "",
        "ref file expect bindings template gracePeriodSeconds wait timeout deletionPropagationPolicy "
        + IGNORES_READ_ERRORS,
    ),
    "assert": _shape("", "resource file bindings template count outputs timeout"),
    "error": _shape("", "resource file bindings template count outputs timeout"),
    "wait": _shape("apiVersion kind for", f"{_SELECTED} format"),
    "get": _shape("apiVersion kind", f"{_SELECTED} format"),
    "describe": _shape("apiVersion kind", f"{_SELECTED} showEvents"),
    "events": _shape("", f"{_SELECTED} format"),
    "podLogs": _shape("", f"{_SELECTED} container tail matches lacks since outputs"),
    "exec": _shape("name command", "namespace container matches exitCode outputs timeout"),
    "request": _shape("path", "method accept contentType body answer outputs"),
    "observe": _shape("name value", "apiVersion kind object namespace selector node"),
    "script": _shape("content", f"shell shellArgs {_PROGRAM}"),
    "command": _shape("entrypoint", f"args {_PROGRAM}"),
    "audit": _shape("", "for to gates resources answer outputs", of_cluster=True),
    "migrate": _shape("", "resources outputs"),
    "simulate": _shape("", "scaleUp scaleDown answer outputs", of_cluster=True),
    "sleep": _shape("duration"),
    "upgrade": _shape("to", "components force", of_cluster=True),
    "downgrade": _shape("to", "components force", of_cluster=True),
    "move": _shape("from to", "components force", of_cluster=True),
    "gates": _shape("set", "components", of_cluster=True),
    "restart": _shape("component", of_cluster=True),
    "kill": _shape("component", of_cluster=True),
    "fork": _shape("branches", of_cluster=True),
    "compare": _shape("", "branches resources namespace differences outcomes timeout", of_cluster=True),
    "driver": _shape("name", f"node nodes {' '.join(SWITCHES)}", of_cluster=True),
    "kubelet": _shape("node", "removeFiles set file matches absent outputs timeout", of_cluster=True),
    "fault": _shape("", " ".join((*FAULT_KEYS, "clear", "await", "expectFired", "timeout")), of_cluster=True),
    "metric": _shape(
        "component name",
        "labels value atLeast atMost count sum buckets quantiles absent since path outputs timeout",
        of_cluster=True,
    ),
    "logs": _shape("component", "since match absent count outputs timeout", of_cluster=True),
    "undisturbed": _shape("", "name namespace labels count", of_cluster=True),
    "prepared": _shape(
        "",
        "node driver claim labels pod namespace devices cdiDeviceIDs count absent outputs timeout",
        of_cluster=True,
    ),
}
# What may be in a file instead, by operation.
FROM_FILES: Mapping[str, str] = {
    **dict.fromkeys(("apply", "create", "update", "patch", "assert", "error"), "resource"),
    "delete": "ref",
}
PROPAGATION = ("Background", "Foreground", "Orphan")
FORMATS = ("json", "yaml")
DURATION = {
    "type": "string",
    "pattern": r"^([0-9]+([.][0-9]+)?(ms|s|m|h))+$",
    "errorMessage": "expected a duration such as 30s or 1m30s",
}
_TEXT, _BOOLEAN, _NUMBER = {"type": "string"}, {"type": "boolean"}, {"type": "integer"}
_NAMES = {"type": "array", "items": _TEXT}
_FAULT = {**_TEXT, "errorMessage": "expected the id of a fault"}
_EXPECTATIONS = {
    "type": "array",
    "items": {"$ref": "#/$defs/expectation"},
    "errorMessage": "expected a list of `match` and `check`",
}
_COMPONENT = {"$ref": "#/$defs/component"}
_VERSION = {"$ref": "#/$defs/version"}
_ANY: dict[str, Any] = {}
REFERENCE_KEYS = ("apiVersion", "kind", "name", "namespace", "labels")
WAIT_KEYS = ("condition", "creation", "deletion", "jsonPath")
CONDITION_KEYS = ("name", "value")
JSON_PATH_KEYS = ("path", "value")

# What the keys of an operation may name besides bindings: of what it came to.
RESULT_NAMES: Mapping[tuple[str, str], tuple[str, ...]] = {
    **{(kind, "expect"): ("error",) for kind in ("apply", "create", "update", "patch", "delete")},
    **{
        (kind, key): ("stdout", "stderr", "error")
        for kind in ("script", "command")
        for key in ("check", "outputs")
    },
}
SCALE_UP_KEYS = ("nodes", "max")
ENVIRONMENT_KEYS = ("name", "value")

# What the keys of bodies mean, with the JSON Schema of their values; `OPERATION.KEY` where it is another.
MEANINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "absent": ("What must not be there.", _ANY),
    "accept": ("The media type that is wanted; JSON if it is left out.", _TEXT),
    "body": ("What is sent.", _ANY),
    "contentType": ("The media type of the body; JSON if it is left out.", _TEXT),
    "method": ("The method; GET if it is left out.", _TEXT),
    "request.path": ("Path and query.", _TEXT),
    "answer": ("What the answer has to have.", _ANY),
    "apiVersion": ("Group and version.", _TEXT),
    "atLeast": ("The least number.", _ANY),
    "atMost": ("The greatest number.", _ANY),
    "await": ("Wait until the fault of this id has fired.", _FAULT),
    "branches": (
        "The branches to compare; all if it is left out.",
        {
            "type": "array",
            "items": _TEXT,
            "minItems": 2,
            "errorMessage": "expected two branches or more",
        },
    ),
    "fork.branches": (
        "The branches: two or more, each with its bindings and operations.",
        {
            "type": "array",
            "items": {"$ref": "#/$defs/branch"},
            "minItems": 2,
            "errorMessage": "expected a list of two branches or more",
        },
    ),
    "buckets": ("Buckets of a histogram.", _ANY),
    "args": ("What follows the command; `$NAME` is a variable of its environment.", _NAMES),
    "bindings": ("What is bound for this operation alone.", {"$ref": "#/$defs/bindings"}),
    "check": ("What its end has to be: of $stdout, $stderr and $error.", {"type": "object"}),
    "deletionPropagationPolicy": ("What becomes of dependents.", {"enum": [*PROPAGATION]}),
    "entrypoint": ("The program.", _TEXT),
    "format": ("How the objects are shown.", {"enum": [*FORMATS]}),
    "shell": ("The shell; sh if it is left out.", _TEXT),
    "shellArgs": ("What the shell gets before the content; -c if it is left out.", _NAMES),
    "showEvents": ("Whether their events are shown, too.", _BOOLEAN),
    "skipCommandOutput": ("Whether the report leaves out what was run.", _BOOLEAN),
    "skipLogOutput": ("Whether the report leaves out what it wrote.", _BOOLEAN),
    "tail": ("How many lines are shown; all if it is left out.", _NUMBER),
    "template": ("Expressions are evaluated, as always.", {"const": True}),
    "workDir": ("The directory that it runs in; the scenario's if it is left out.", _TEXT),
    "cdiDeviceIDs": ("CDI devices of each.", _ANY),
    "claim": (
        "The claim's name, or a list of names.",
        {
            "type": ["string", "array"],
            "items": _TEXT,
            "errorMessage": "expected the name of a claim, or a list of names",
        },
    ),
    "clear": ("Take the fault of this id away, or `all`.", _FAULT),
    "command": ("The command and its arguments.", {"type": ["array", "string"], "items": _ANY}),
    "component": ("The component.", _COMPONENT),
    "metric.component": (
        "The component, or a list of them.",
        {"anyOf": [_COMPONENT, {"type": "array", "items": _COMPONENT}]},
    ),
    "components": (
        "The components; all if it is left out.",
        {"type": "array", "items": _COMPONENT, "errorMessage": "expected a list of components"},
    ),
    "container": ("The container.", _TEXT),
    "content": ("What the shell runs.", _TEXT),
    "count": ("How many there have to be.", _NUMBER),
    "metric.count": ("How many observations.", _ANY),
    "prepared.count": ("How many there have to be.", _ANY),
    "logs.count": ("How many lines have it.", _ANY),
    "devices": ("The devices.", _ANY),
    "differences": (
        "The differences that there have to be.",
        {"type": "array", "items": {"$ref": "#/$defs/difference"}},
    ),
    "driver": ("The driver's name.", _TEXT),
    "duration": ("How long.", DURATION),
    "env": ("Variables of its environment.", {"type": "array", "items": {"$ref": "#/$defs/variable"}}),
    "exitCode": ("The status that it has to end with.", _ANY),
    "expect": ("Checks of the answer.", _EXPECTATIONS),
    "expectFired": ("The fault of this id must have fired.", _FAULT),
    "fieldManager": ("Who applies it; the server merges it then.", _TEXT),
    "file": ("A file of manifests, or a pattern of several, next to the scenario's.", _TEXT),
    "kubelet.file": ("A file of the kubelet.", _TEXT),
    "for": ("What to wait for.", {"$ref": "#/$defs/condition"}),
    "audit.for": ("The version that is to read the objects.", _VERSION),
    "fault.for": ("For so long after it has fired first.", _ANY),
    "force": ("Allow a skew that upstream does not support.", _BOOLEAN),
    "from": ("The version it is at.", _VERSION),
    "gates": ("Gates of that version.", {"$ref": "#/$defs/featureGates"}),
    "gracePeriodSeconds": ("Seconds that pods have to end.", _ANY),
    "kind": ("The kind.", _TEXT),
    "labels": ("Labels that it has to have.", {"type": "object"}),
    "lacks": ("A regular expression that must not match.", _TEXT),
    "match": ("A regular expression that a line has to match.", _TEXT),
    "matches": ("A regular expression that has to match.", _TEXT),
    "name": ("The name.", _TEXT),
    "namespace": ("The namespace; the cell's if it is left out.", _TEXT),
    "node": ("The node.", _TEXT),
    "nodes": ("The nodes.", _NAMES),
    "object": ("The object's name.", _ANY),
    "outcomes": (
        "The steps that came out otherwise.",
        {"type": "array", "items": {"$ref": "#/$defs/outcome"}},
    ),
    "outputs": ("What to bind of the result, for what comes behind.", {"$ref": "#/$defs/outputs"}),
    "path": ("The path that metrics are read from.", _TEXT),
    "pod": ("The pod's name.", _TEXT),
    "quantiles": ("Quantiles of a summary.", _ANY),
    "ref": ("What to delete.", {"$ref": "#/$defs/reference"}),
    "removeFiles": ("Files of the kubelet to remove.", _ANY),
    "resource": ("The object.", {"$ref": "#/$defs/object"}),
    "fault.resource": ("The resource, as plural, plural.group or plural/subresource.", _TEXT),
    "resources": (
        "The resources that are meant; all if it is left out.",
        {**_NAMES, "errorMessage": "expected a list of resources"},
    ),
    "scaleDown": ("The node that is to be removed.", _ANY),
    "scaleUp": ("Templates of nodes, and how many there may be.", {"$ref": "#/$defs/scaleUp"}),
    "selector": ("A selector of labels.", _ANY),
    "set": ("Gates and their values; null unsets one.", {"$ref": "#/$defs/gateChanges"}),
    "kubelet.set": ("Settings of the kubelet.", {"type": "object"}),
    "since": ("From when on: a binding, or a step.", _ANY),
    "subresource": ("The subresource that is written.", _TEXT),
    "sum": ("The sum of observations.", _ANY),
    "timeout": ("How long it may take.", DURATION),
    "to": ("The version to go to.", _VERSION),
    "audit.to": ("The versions of a way.", _ANY),
    "value": ("The value.", _ANY),
    "wait": ("Whether to wait until it is gone.", _BOOLEAN),
    IGNORES_READ_ERRORS: ("Delete what cannot be read.", _BOOLEAN),
}


def meaning(kind: str, key: str) -> tuple[str, Mapping[str, Any]]:
    """Looks up the meaning of a body's key, and the schema of its values.

    Keys of `fault` and `driver` that are not among `MEANINGS` are checked where they are read.
    """
    if (found := MEANINGS.get(f"{kind}.{key}")) is not None:
        return found
    if (kind == "fault" and key in FAULT_KEYS and key != "component") or (
        kind == "driver" and key in SWITCHES
    ):
        return "", {}
    return MEANINGS[key]


PROFILE_KEYS = ("scenarios", "cells")
HEADER_KEYS = ("cluster", "parameters", "baseline", "expectedFailures", "notRun")
EXPECTED_FAILURE_KEYS = ("when", "steps", "found", "reason", "source", "bug", "at", "finding")
EXEMPTION_KEYS = ("when", "steps", "reason")
DOCUMENT_KEYS = ("apiVersion", "kind", "metadata", "spec")
TEST_KEYS = (
    *("description", "timeouts", "bindings", "steps", "catch", "namespace", "concurrent", "skipDelete"),
    *("template", "fastNamespaceDeletion"),
)
TIMEOUT_KEYS = ("apply", "assert", "cleanup", "delete", "error", "exec")
STEP_KEYS = (
    *("name", "description", "needs", "bindings", "timeouts", "template"),
    *("try", "catch", "finally", "cleanup"),
)
REPEAT_KEYS = ("forEach", "steps")
FORK_STEP_KEYS = ("name", "description", "needs", "try")
BRANCH_KEYS = ("name", "bindings", "try")
DIFFERENCE_KEYS = ("object", "path", "values")
OUTCOME_KEYS = ("step", "values")
OPERATION_SETTINGS = ("description", "continueOnError", "as", "through")
USER_KEYS = ("user", "group", "extra")
BINDING_KEYS = ("name", "value")
OUTPUT_KEYS = ("name", "value", "match")
EXPECT_KEYS = ("match", "check")

# Keys of Chainsaw's Test, of which those that a place does not know are not done there.
_CHAINSAWS = frozenset(key for keys in chainsaw.KEYS.values() for key in keys)


def check_keys(value: Any, known: Iterable[str], where: str) -> Mapping[str, Any]:
    """Raises ScenarioError with the place and a hint if the value is no mapping or has other keys."""
    names = list(known)
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{where}: expected a mapping with {', '.join(names)}, found {value!r}")
    for key in value:
        if key not in names:
            if key in _CHAINSAWS:
                instead = f": {chainsaw.INSTEAD[key]}" if key in chainsaw.INSTEAD else ""
                what = f"Chainsaw's key {key} is not supported here{instead}"
            else:
                what = f"unknown key {key}"
            hint = did_you_mean(str(key), names)
            raise ScenarioError(f"{where}: {what}; known are {', '.join(names)}{hint}", str(key))
    return value


def check_body(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Raises ScenarioError if the body of an operation lacks a key, or has an unknown one, or a value of
    another type than `MEANINGS` has for its key."""
    shape = OPERATIONS[kind]
    check_keys(body, shape.keys, where)
    missing = sorted(shape.required - body.keys())
    if missing:
        raise ScenarioError(f"{where}: expected {' and '.join(f'`{key}`' for key in missing)}")
    for key, value in body.items():
        try:
            check(value, meaning(kind, key)[1], {}, key, _is_open)
        except SchemaError as error:
            raise ScenarioError(f"{where}.{error}") from error


def _is_open(value: Any) -> bool:
    """The value of an expression is known in the run."""
    return chainsaw.expression(value) is not None
