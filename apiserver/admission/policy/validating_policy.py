"""Refuses, warns or writes audit annotations by the CEL of ValidatingAdmissionPolicies.

Sources: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go, 1.36;
k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go, 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kubeskew.apimachinery.errors import StatusError, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.expressions import BudgetSpentError, Expression, Outcome
from kubeskew.apiserver.admission.dynamic.matching import EXEMPT, Invocation, Versioned
from kubeskew.apiserver.admission.policy.policies import (
    Binding,
    Compiler,
    ConfigurationError,
    Policies,
    Policy,
    collect,
    declare_all,
    param_resource,
)
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.offload import offload_if_costly
from kubeskew.apiserver.storage.encoding import dumps

_MAX_MESSAGE = 5 * 1024
INVALID = "Invalid"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_ANNOTATION = 10 * 1024


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """A decision without a message admits; `position` is the validation's in the policy."""

    position: int
    message: str = ""
    reason: str = ""


@dataclass(slots=True)
class Result:
    """A policy has one result per parameter. `errors` are annotations that failed to evaluate: they deny."""

    decisions: list[PolicyDecision] = field(default_factory=list)
    annotations: list[tuple[str, str]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Validation:
    expression: Expression
    message: Expression | None
    text: str
    reason: str


class Evaluator:
    def __init__(self, services: AdmissionServices, spec: Object) -> None:
        from kubeskew.apimachinery.cel import types

        params = spec.get("paramKind") is not None
        self._fails = spec.get("failurePolicy") != "Ignore"
        self._conditions = Conditions(
            services, spec.get("matchConditions") or (), fails=self._fails, params=params
        )
        self._compiler = Compiler(services.features.expressions, params=params)
        declare_all(self._compiler, spec.get("variables") or [])
        self._validations = [self._validation(validation) for validation in spec.get("validations") or ()]
        self._annotations = [
            (
                annotation.get("key") or "",
                self._compiler.expression(
                    annotation.get("valueExpression") or "", (types.STRING, types.NULL)
                ),
            )
            for annotation in spec.get("auditAnnotations") or ()
        ]

    def _validation(self, given: Mapping[str, Any]) -> _Validation:
        from kubeskew.apimachinery.cel import types

        message = given.get("messageExpression")
        return _Validation(
            self._compiler.expression(given.get("expression") or "", (types.BOOL,)),
            self._compiler.expression(message, (types.STRING,), authorizer=False) if message else None,
            (given.get("message") or "").strip(),
            given.get("reason") or INVALID,
        )

    def decide(self, bound: Mapping[str, Any]) -> Result:
        """Each validation has a decision; an error is a denial where the policy fails on errors."""
        holds, error = self._conditions.decide(bound)
        if error:
            return Result([self._failed(0, error)])
        if not holds:
            return Result()
        complete = self._compiler.bind(bound)
        try:
            return self._decide(complete)
        except BudgetSpentError as spent:
            return Result([self._failed(0, str(spent))])

    def _decide(self, bound: Mapping[str, Any]) -> Result:
        budget = expressions.BUDGET
        outcomes: list[Outcome] = []
        for validation in self._validations:
            outcome, budget = validation.expression.evaluate(bound, budget)
            outcomes.append(outcome)
        result = Result()
        for position, (validation, outcome) in enumerate(zip(self._validations, outcomes, strict=True)):
            if outcome.error:
                result.decisions.append(self._failed(position, outcome.error))
            elif outcome.value is not True:
                message, budget = self._message(validation, bound, budget)
                result.decisions.append(PolicyDecision(position, message, validation.reason))
            else:
                result.decisions.append(PolicyDecision(position))
        self._annotate(result, bound)
        return result

    def _failed(self, position: int, message: str) -> PolicyDecision:
        return PolicyDecision(position, message) if self._fails else PolicyDecision(position)

    @staticmethod
    def _message(validation: _Validation, bound: Mapping[str, Any], budget: int) -> tuple[str, int]:
        """The computed text comes first, if it is usable, then the fixed one, then the expression."""
        message = ""
        if validation.message is not None:
            outcome, budget = validation.message.evaluate(bound, budget)
            if isinstance(outcome.value, str):
                message = outcome.value.strip()
            if len(message.encode()) > _MAX_MESSAGE or "\n" in message:
                message = ""
        source = validation.expression.source.strip()
        return message or validation.text or f"failed expression: {source}", budget

    def _annotate(self, result: Result, bound: Mapping[str, Any]) -> None:
        budget = expressions.BUDGET
        for key, expression in self._annotations:
            outcome, budget = expression.evaluate(bound, budget)
            if outcome.error:
                if self._fails:
                    result.errors.append(outcome.error)
            elif isinstance(outcome.value, str) and outcome.value.strip():
                result.annotations.append((key, outcome.value.strip()))


class Denial(NamedTuple):
    """`binding` is empty where the policy itself is at fault."""

    policy: str
    binding: str
    message: str
    reason: str = ""


class ValidatingAdmissionPolicy(Plugin):
    waits = True
    operations = frozenset({CREATE, UPDATE, DELETE, CONNECT})
    subresources = None

    def __init__(self, services: AdmissionServices) -> None:
        self._services = services
        # 1.26 has no actions; from then on a binding stored without any does nothing.
        self._implied = () if services.features.admission.policy_actions else ("Deny",)
        self._policies: Policies[Evaluator] = Policies(
            services, "validatingadmissionpolicies", lambda spec: Evaluator(services, spec)
        )

    async def validate(self, attributes: Attributes) -> None:
        policies = self._policies.all()
        if not policies or attributes.resource.storage_resource in EXEMPT:
            return
        versioned = Versioned(self._services, attributes)
        denials: list[Denial] = []
        for policy in policies:
            denials += await self._evaluate(policy, versioned)
        if denials:
            raise _refusal(attributes, denials[0])

    async def _evaluate(self, policy: Policy[Evaluator], versioned: Versioned) -> list[Denial]:
        services, attributes = self._services, versioned.attributes
        try:
            invocation = policy.criteria.match(attributes, services.table, services.store)
            if invocation is None:
                return []
            resource = param_resource(services, policy.spec.get("paramKind"))
        except (StatusError, ConfigurationError) as error:
            return _misconfigured(policy, "", f"failed to configure policy: {error}")
        denials: list[Denial] = []
        published: dict[str, list[str]] = {}
        for binding in policy.bindings:
            try:
                if not self._is_bound(binding, attributes):
                    continue
                params = await collect(services, resource, binding.spec.get("paramRef"), attributes.namespace)
            except (StatusError, ConfigurationError) as error:
                denials += _misconfigured(policy, binding.name, f"failed to configure binding: {error}")
                continue
            bound = await self._bindings(invocation, versioned)
            for param in params:
                result = await _decided(policy, {**bound, "params": param})
                denials += _enforce(policy, binding, result, attributes, self._implied)
                for key, value in result.annotations:
                    published.setdefault(key, []).append(value[:_MAX_ANNOTATION])
        for key, values in published.items():
            attributes.annotations[f"{policy.name}/{key}"] = ", ".join(dict.fromkeys(values))
        return denials

    def _is_bound(self, binding: Binding, attributes: Attributes) -> bool:
        services = self._services
        if binding.criteria is None:
            return True
        return binding.criteria.match(attributes, services.table, services.store) is not None

    async def _bindings(self, invocation: Invocation, versioned: Versioned) -> dict[str, Any]:
        services, attributes = self._services, versioned.attributes
        objects = await versioned.object(invocation), await versioned.old(invocation)
        bound = expressions.bindings(services, attributes, invocation, objects)
        bound["namespaceObject"] = expressions.namespace_value(services, attributes)
        return bound


async def _decided(policy: Policy[Evaluator], bound: dict[str, Any]) -> Result:
    return await offload_if_costly(lambda: policy.evaluator.decide(bound))


def _misconfigured(policy: Policy[Evaluator], binding: str, message: str) -> list[Denial]:
    return [] if policy.ignores_failures else [Denial(policy.name, binding, message)]


def _enforce(
    policy: Policy[Evaluator],
    binding: Binding,
    result: Result,
    attributes: Attributes,
    implied: tuple[str, ...],
) -> list[Denial]:
    """Applies the binding's actions, or those `implied`; the denials that come back refuse the request."""
    denials: list[Denial] = []
    actions = binding.spec.get("validationActions") or implied
    for decision in result.decisions:
        if not decision.message:
            continue
        for action in actions:
            if action == "Deny":
                denials.append(Denial(policy.name, binding.name, decision.message, decision.reason))
            elif action == "Warn":
                attributes.warnings.append(
                    f"Validation failed for ValidatingAdmissionPolicy '{policy.name}' with binding "
                    f"'{binding.name}': {decision.message}"
                )
            elif action == "Audit":
                _note_failure(policy, binding, decision, attributes)
    return [*denials, *(Denial(policy.name, binding.name, error) for error in result.errors)]


def _note_failure(
    policy: Policy[Evaluator], binding: Binding, decision: PolicyDecision, attributes: Attributes
) -> None:
    failure: Object = {
        "message": decision.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": decision.position,
        "validationActions": list(binding.spec.get("validationActions") or ()),
    }
    key = "validation.policy.admission.k8s.io/validation_failure"
    attributes.annotations[key] = dumps([failure]).decode()


def _refusal(attributes: Attributes, denial: Denial) -> StatusError:
    bound = f" with binding '{denial.binding}'" if denial.binding else ""
    message = f"ValidatingAdmissionPolicy '{denial.policy}'{bound} denied request: {denial.message}"
    metadata = (attributes.object or {}).get("metadata") or {}
    name = attributes.name or metadata.get("name") or metadata.get("generateName") or "Unknown"
    error = forbidden((attributes.requested or attributes.resource).group_resource, name, message)
    error.reason = denial.reason or INVALID
    error.code = _CODES.get(error.reason, 422)
    error.details = {**(error.details or {}), "causes": [{"message": message}]}
    return error
