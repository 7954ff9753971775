"""The CEL variable `authorizer`:
`authorizer.group('apps').resource('deployments').check('create').allowed()`.

Source: k8s.io/apiserver/pkg/cel/library/authz.go, 1.36.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kubeskew.apimachinery.cel.errors import EvaluationError
from kubeskew.apimachinery.cel.overloads import Overload, overload

_PREFIX = "kubernetes.authorization."

# Gets the question: verb, path, group, resource, subresource, namespace, name, fieldSelector, labelSelector,
# and for another account serviceAccount, its namespace and name. Answers with "allow", "deny" or anything
# else for no opinion, and the reason; may raise ValueError.
Check = Callable[[Mapping[str, Any]], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The authorizer's decision on one check, with the reason: a `kubernetes.authorization.Decision`."""

    decision: str = ""
    reason_text: str = ""
    failure: str = ""

    cel_type = _PREFIX + "Decision"

    def allowed(self) -> bool:
        return self.decision == "allow"

    def reason(self) -> str:
        return self.reason_text

    def errored(self) -> bool:
        return self.failure != ""

    def error(self) -> str:
        return self.failure


def _ask(check: Check, asked: Mapping[str, Any], verb: str) -> CheckResult:
    try:
        decision, reason = check({**asked, "verb": verb})
    except ValueError as error:
        return CheckResult(failure=str(error))
    return CheckResult(decision, reason)


@dataclass(frozen=True, slots=True)
class PathCheck:
    """A check of a path outside of resources, `/healthz` for example."""

    asker: Check
    asked: Mapping[str, Any]

    cel_type = _PREFIX + "PathCheck"

    def check(self, verb: str) -> CheckResult:
        return _ask(self.asker, self.asked, verb)


@dataclass(frozen=True, slots=True)
class ResourceCheck:
    asker: Check
    asked: Mapping[str, Any]

    cel_type = _PREFIX + "ResourceCheck"

    def _with(self, name: str, value: str) -> "ResourceCheck":
        return replace(self, asked={**self.asked, name: value})

    def subresource(self, value: str) -> "ResourceCheck":
        return self._with("subresource", value)

    def namespace(self, value: str) -> "ResourceCheck":
        return self._with("namespace", value)

    def name(self, value: str) -> "ResourceCheck":
        return self._with("name", value)

    def field_selector(self, value: str) -> "ResourceCheck":
        return self._with("fieldSelector", value)

    def label_selector(self, value: str) -> "ResourceCheck":
        return self._with("labelSelector", value)

    def check(self, verb: str) -> CheckResult:
        return _ask(self.asker, self.asked, verb)


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """A check of a group, until its resource is named."""

    asker: Check
    asked: Mapping[str, Any]

    cel_type = _PREFIX + "GroupCheck"

    def resource(self, plural: str) -> ResourceCheck:
        return ResourceCheck(self.asker, {**self.asked, "resource": plural})


@dataclass(frozen=True, slots=True)
class Authorizer:
    """The variable `authorizer`; `asked` names a service account if the check is for one, not for the
    request's user."""

    asker: Check
    asked: Mapping[str, Any] = field(default_factory=dict)

    cel_type = _PREFIX + "Authorizer"

    def path(self, path: str) -> PathCheck:
        if not path.strip():
            raise EvaluationError("path must not be empty")
        return PathCheck(self.asker, {**self.asked, "path": path})

    def group(self, group: str) -> GroupCheck:
        return GroupCheck(self.asker, {**self.asked, "group": group})

    def service_account(self, namespace: str, name: str) -> "Authorizer":
        for what, text in (("namespace", namespace), ("name", name)):
            if not text:
                raise EvaluationError(f"Invalid service account {what}")
        return replace(self, asked={**self.asked, "serviceAccount": (namespace, name)})


def _signature(signature: str) -> str:
    """Types of this library are written `@Name`."""
    return signature.replace("@", _PREFIX)


AUTHORIZER: tuple[Overload, ...] = tuple(
    overload(_signature(signature), function)
    for signature, function in (
        ("@Authorizer.path(string) @PathCheck", Authorizer.path),
        ("@Authorizer.group(string) @GroupCheck", Authorizer.group),
        ("@Authorizer.serviceAccount(string,string) @Authorizer", Authorizer.service_account),
        ("@GroupCheck.resource(string) @ResourceCheck", GroupCheck.resource),
        ("@ResourceCheck.subresource(string) @ResourceCheck", ResourceCheck.subresource),
        ("@ResourceCheck.namespace(string) @ResourceCheck", ResourceCheck.namespace),
        ("@ResourceCheck.name(string) @ResourceCheck", ResourceCheck.name),
        ("@PathCheck.check(string) @Decision", PathCheck.check),
        ("@ResourceCheck.check(string) @Decision", ResourceCheck.check),
        ("@Decision.errored() bool", CheckResult.errored),
        ("@Decision.error() string", CheckResult.error),
        ("@Decision.allowed() bool", CheckResult.allowed),
        ("@Decision.reason() string", CheckResult.reason),
    )
)
AUTHORIZER_SELECTORS: tuple[Overload, ...] = tuple(
    overload(_signature(signature), function)
    for signature, function in (
        ("@ResourceCheck.fieldSelector(string) @ResourceCheck", ResourceCheck.field_selector),
        ("@ResourceCheck.labelSelector(string) @ResourceCheck", ResourceCheck.label_selector),
    )
)
