"""The keys that scenario files may have, by where they stand.

A key that is not here is refused when the file is read: what is misspelt must not be left undone in silence.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubeskew.apimachinery.faults.reading import KEYS as FAULT_KEYS
from kubeskew.apimachinery.suggestions import did_you_mean
from kubeskew.conformance.errors import ScenarioError
from kubeskew.kubelet.drivers.switches import SWITCHES

IGNORES_READ_ERRORS = "ignoreStoreReadErrorWithClusterBreakingPotential"  # metav1.DeleteOptions


@dataclass(frozen=True, slots=True)
class Shape:
    """The body of an operation: the keys it must have, and those it may have.

    `of_cluster` marks what only a cluster of ours can do.
    """

    required: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    of_cluster: bool = False

    @property
    def keys(self) -> list[str]:
        return sorted(self.required | self.optional)


def _shape(required: str, optional: str = "", *, of_cluster: bool = False) -> Shape:
    return Shape(frozenset(required.split()), frozenset(optional.split()), of_cluster)


# The operations of a `try` list. The runner has a function for each (`RUN` in conformance/runner.py).
OPERATIONS: Mapping[str, Shape] = {
    "apply": _shape("", "resource file expect outputs subresource"),
    "create": _shape("", "resource file expect outputs"),
    "patch": _shape("", "resource file expect outputs subresource"),
    "delete": _shape("ref", f"gracePeriodSeconds wait timeout {IGNORES_READ_ERRORS}"),
    "assert": _shape("resource", "count outputs timeout"),
    "error": _shape("resource", "count outputs timeout"),
    "wait": _shape("apiVersion kind for", "name namespace selector timeout"),
    "podLogs": _shape("name", "namespace container matches lacks since outputs timeout"),
    "exec": _shape("name command", "namespace container matches exitCode outputs timeout"),
    "observe": _shape("name value", "apiVersion kind object namespace selector node"),
    "script": _shape("content", "env timeout"),
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
# What Chainsaw has besides, and what to write here instead.
CHAINSAW_OPERATIONS: Mapping[str, str] = {
    "command": "write a `script`",
    "describe": "write an `assert`, whose failure says what was found",
    "events": "write an `assert` of an Event",
    "get": "write an `assert`, whose failure says what was found",
    "proxy": "write a `script` with kubectl",
    "update": "write a `patch`, or `apply`",
}

PROFILE_KEYS = ("scenarios", "cells")
HEADER_KEYS = ("cluster", "parameters", "baseline", "expectedFailures", "notRun")
EXPECTED_FAILURE_KEYS = ("when", "steps", "found", "reason", "source", "bug", "at")
EXEMPTION_KEYS = ("when", "steps", "reason")
DOCUMENT_KEYS = ("apiVersion", "kind", "metadata", "spec")
TEST_KEYS = ("description", "timeouts", "bindings", "steps")
TIMEOUT_KEYS = ("apply", "assert", "cleanup", "delete", "error", "exec")
STEP_KEYS = ("name", "description", "needs", "bindings", "try", "catch", "finally", "cleanup")
REPEAT_KEYS = ("forEach", "steps")
FORK_STEP_KEYS = ("name", "description", "needs", "try")
BRANCH_KEYS = ("name", "bindings", "try")
DIFFERENCE_KEYS = ("object", "path", "values")
OUTCOME_KEYS = ("step", "values")
BESIDE_OPERATION = ("description", "continueOnError", "as", "through")
USER_KEYS = ("user", "extra")
BINDING_KEYS = ("name", "value")
OUTPUT_KEYS = ("name", "value")
EXPECT_KEYS = ("match", "check")

# Keys of Chainsaw's Test that stand for something that is not done here.
_CHAINSAW_ONLY = frozenset(
    {
        *("catch", "cluster", "clusters", "compiler", "concurrent", "deletionPropagationPolicy"),
        *("delayBeforeCleanup", "dryRun", "error", "format", "forceTerminationGracePeriod", "fullName"),
        *("namespace", "namespaceTemplate", "scenarios", "skip", "skipCommandOutput", "skipDelete"),
        *("skipLogOutput", "template", "timeouts", "use", "workDir", "check", "file", "bindings", "tail"),
    }
)


def check_keys(value: Any, known: Iterable[str], where: str) -> Mapping[str, Any]:
    """Returns the mapping. Raises ScenarioError with the place and a hint if it is none or has other keys."""
    names = list(known)
    if not isinstance(value, Mapping):
        raise ScenarioError(f"{where}: expected a mapping with {', '.join(names)}, found {value!r}")
    for key in value:
        if key not in names:
            other = "Chainsaw's key" if key in _CHAINSAW_ONLY else "unknown key"
            verb = "is not supported here" if key in _CHAINSAW_ONLY else ""
            raise ScenarioError(
                " ".join(filter(None, (f"{where}: {other} {key}", verb)))
                + f"; known are {', '.join(names)}{did_you_mean(str(key), names)}"
            )
    return value


def check_body(kind: str, body: Mapping[str, Any], where: str) -> None:
    """Raises ScenarioError if the body of an operation lacks a key that it needs, or has an unknown one."""
    shape = OPERATIONS[kind]
    check_keys(body, shape.keys, where)
    missing = sorted(shape.required - body.keys())
    if missing:
        raise ScenarioError(f"{where}: expected {' and '.join(f'`{key}`' for key in missing)}")
