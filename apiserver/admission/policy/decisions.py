"""Evaluates a ValidatingAdmissionPolicy for one request.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/validator.go, 1.36.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.conditions import Conditions
from kubeskew.apiserver.admission.dynamic.expressions import BudgetSpentError, Expression, Outcome
from kubeskew.apiserver.admission.policy.compiling import Compiler, declare_all
from kubeskew.apiserver.admission.services import AdmissionServices

_MAX_MESSAGE = 5 * 1024
INVALID = "Invalid"


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """Holds the decision of one validation: admitted if there is no message. `position` is its own in the
    policy.
    """

    position: int
    message: str = ""
    reason: str = ""


@dataclass(slots=True)
class Result:
    """Holds the result of one policy with one parameter. `errors` are annotations that could not be had: they
    deny.
    """

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
    """Holds the compiled expressions of a policy."""

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
        """Returns every validation's decision; an error counts as a denial where the policy fails
        on errors.
        """
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
        """Returns the message of a denial: the computed text if it is usable, the fixed one, the
        expression.
        """
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
