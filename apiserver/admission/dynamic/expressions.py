"""Evaluates the CEL expressions of webhooks and policies over a request, within a budget.

Source: k8s.io/apiserver/pkg/admission/plugin/cel/{compile,condition,activation}.go, 1.36.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from kubeskew.apimachinery.cel.release import Release
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.admission.dynamic import matching
from kubeskew.apiserver.admission.dynamic.matching import Invocation, namespace_object
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.authorization import Authorizer
from kubeskew.apiserver.caching.offload import on_event_loop
from kubeskew.apiserver.http.request import RequestInfo
from kubeskew.apiserver.user import AUTHENTICATED_GROUP, User

if TYPE_CHECKING:
    from kubeskew.apimachinery.cel import Environment, Program

BUDGET = 10_000_000  # of a policy's expressions together, for one parameter
CONDITIONS_BUDGET = 2_500_000
_PER_EXPRESSION = 1_000_000
_SPENT = "validation failed due to running out of cost budget, no further validation rules will be run"
_NAMESPACE_METADATA = (
    "name", "generateName", "namespace", "labels", "annotations", "uid", "creationTimestamp",
    "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "resourceVersion", "finalizers",
)  # fmt: skip


class BudgetSpentError(Exception):
    """The expressions together cost more than allowed."""

    def __init__(self) -> None:
        super().__init__(_SPENT)


@dataclass(frozen=True, slots=True)
class Outcome:
    value: Any = None
    error: str = ""


@cache
def environment(
    release: Release, *, params: bool, stored: bool = True, authorizer: bool = True
) -> "Environment":
    """`params` is declared where a policy has parameters."""
    from kubeskew.apimachinery import cel
    from kubeskew.apimachinery.cel import types

    variables: dict[str, Any] = {
        "object": types.DYN,
        "oldObject": types.DYN,
        "request": _request_type(),
        "namespaceObject": _namespace_type(),
    }
    if authorizer:
        variables["authorizer"] = types.opaque("kubernetes.authorization.Authorizer")
        check = types.opaque("kubernetes.authorization.ResourceCheck")
        variables["authorizer.requestResource"] = check
    if params:
        variables["params"] = types.DYN
    return cel.environment(release, stored=stored, variables=variables)


def _request_type() -> Any:
    from kubeskew.apimachinery.cel import types

    texts = types.list_of(types.STRING)
    user = {"username": types.STRING, "uid": types.STRING, "groups": texts}
    user["extra"] = types.map_of(types.STRING, texts)
    kind = types.object_type(
        "kubernetes.GroupVersionKind", dict.fromkeys(("group", "version", "kind"), types.STRING)
    )
    resource = types.object_type(
        "kubernetes.GroupVersionResource", dict.fromkeys(("group", "version", "resource"), types.STRING)
    )
    fields: dict[str, Any] = dict.fromkeys(
        ("name", "namespace", "operation", "subResource", "requestSubResource"), types.STRING
    )
    fields |= {"kind": kind, "requestKind": kind, "resource": resource, "requestResource": resource}
    fields |= {"userInfo": types.object_type("kubernetes.UserInfo", user)}
    fields |= {"dryRun": types.BOOL, "options": types.DYN}
    return types.object_type("kubernetes.AdmissionRequest", fields)


def _namespace_type() -> Any:
    from kubeskew.apimachinery.cel import types

    texts = types.map_of(types.STRING, types.STRING)
    metadata: dict[str, Any] = dict.fromkeys(_NAMESPACE_METADATA, types.STRING)
    metadata |= {"labels": texts, "annotations": texts, "finalizers": types.list_of(types.STRING)}
    metadata |= {"creationTimestamp": types.TIMESTAMP, "deletionTimestamp": types.TIMESTAMP}
    metadata |= {"generation": types.INT, "deletionGracePeriodSeconds": types.INT}
    spec = types.object_type("kubernetes.NamespaceSpec", {"finalizers": types.list_of(types.STRING)})
    status = types.object_type("kubernetes.NamespaceStatus", {"phase": types.STRING})
    fields = {"metadata": types.object_type("kubernetes.NamespaceMetadata", metadata)}
    return types.object_type("kubernetes.Namespace", {**fields, "spec": spec, "status": status})


class Expression:
    """The expression is compiled when it is first needed; if that fails, so does every evaluation."""

    def __init__(self, source: str, environment: "Environment", results: Sequence[Any] = ()) -> None:
        self.source = source
        self._environment = environment
        self._results = tuple(results)
        self._program: Program | None = None
        self._error = ""

    def compiled(self) -> "Program | None":
        """None if the source does not compile: `compile_error` then has the reason."""
        from kubeskew.apimachinery import cel

        if self._program is None and not self._error:
            try:
                self._program = cel.compile(self.source, self._environment, self._results)
            except cel.CompileError as error:
                self._error = f"compilation error: {error}"
        return self._program

    @property
    def compile_error(self) -> str:
        return self._error

    def evaluate(self, bindings: Mapping[str, Any], budget: int) -> tuple[Outcome, int]:
        """The second value is what is left of the budget; raises BudgetSpentError."""
        from kubeskew.apimachinery import cel

        program = self.compiled()
        if program is None:
            return Outcome(error=self._error), budget
        try:
            value, cost = program.evaluate(bindings, limit=min(budget + 1, _PER_EXPRESSION))
            outcome = Outcome(value)
        except cel.EvaluationError as error:
            cost = int(getattr(error, "cost", 0) or 0)
            outcome = Outcome(error=f"expression '{self.source}' resulted in error: {error}")
        if cost > budget:
            raise BudgetSpentError
        return outcome, budget - cost


def bindings(
    services: AdmissionServices,
    attributes: Attributes,
    invocation: Invocation,
    objects: tuple[Object | None, Object | None],
) -> dict[str, Any]:
    """Every expression of admission has these variables; `objects` are the new and the old one."""
    from kubeskew.apimachinery import cel

    authorizer = cel.authorizer.Authorizer(_checker(services.authorizer, attributes.user))
    return {
        "object": objects[0],
        "oldObject": objects[1],
        "request": request_value(attributes, invocation),
        "namespaceObject": None,
        "authorizer": authorizer,
        "authorizer.requestResource": _request_resource(authorizer, attributes),
    }


def request_value(attributes: Attributes, invocation: Invocation) -> Object:
    """Empty fields are left out, so that `has()` is false for them."""
    described = matching.described(attributes, invocation)
    return {**described, "dryRun": attributes.dry_run, "options": matching.options_of(attributes)}


def namespace_value(services: AdmissionServices, attributes: Attributes) -> Object | None:
    """Cluster-scoped objects and namespaces have none. Fields that expressions may not see go; raises 404."""
    if attributes.resource.storage_resource == "namespaces" or not attributes.namespace:
        return None
    found = namespace_object(services.store, attributes.namespace)
    metadata = {name: found["metadata"][name] for name in _NAMESPACE_METADATA if name in found["metadata"]}
    return {"metadata": metadata, "spec": found.get("spec") or {}, "status": found.get("status") or {}}


def _request_resource(authorizer: Any, attributes: Attributes) -> Any:
    """`authorizer.requestResource` is a check of the request's resource, namespace and name."""
    resource = attributes.requested or attributes.resource
    check = authorizer.group(resource.group).resource(resource.plural)
    if attributes.subresource:
        check = check.subresource(attributes.subresource)
    if attributes.namespace:
        check = check.namespace(attributes.namespace)
    return check.name(attributes.name) if attributes.name else check


def _account(namespace: str, name: str) -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED_GROUP)
    return User(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def _checker(authorizer: Authorizer, user: User) -> Any:
    """CEL calls the function with the attributes of a check; it returns decision and reason.

    Roles change on the event loop, so they are asked there, wherever the expression is evaluated.
    """
    loop, home = asyncio.get_running_loop(), threading.get_ident()

    def check(asked: Mapping[str, Any]) -> tuple[str, str]:
        subject = _account(*asked["serviceAccount"]) if asked.get("serviceAccount") else user
        info = RequestInfo(
            not asked.get("path"),
            asked.get("path") or "",
            asked.get("verb") or "",
            asked.get("group") or "",
            asked.get("version") or "*",
            asked.get("resource") or "",
            asked.get("subresource") or "",
            asked.get("namespace") or "",
            asked.get("name") or "",
        )
        decision = on_event_loop(loop, home, lambda: authorizer.authorize(subject, info))
        return "allow" if decision.allowed else "no opinion", decision.reason

    return check
