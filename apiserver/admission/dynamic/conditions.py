"""Evaluates matchConditions, which must all hold before a webhook is called or a policy applies.

Source: k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions/matcher.go, 1.36.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from kubeskew.apimachinery.errors import forbidden
from kubeskew.apiserver.admission import Attributes
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.expressions import BudgetSpentError, Expression
from kubeskew.apiserver.admission.dynamic.matching import Invocation, Versioned
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.offload import offload_if_costly


class Conditions:
    """All conditions of a webhook or policy must hold. With `fails` one that cannot be evaluated is an error;
    without, nothing matches then.
    """

    def __init__(
        self,
        services: AdmissionServices,
        listed: Sequence[Mapping[str, Any]],
        *,
        fails: bool,
        params: bool = False,
    ) -> None:
        self._services = services
        self._fails = fails
        self._expressions: list[Expression] = []
        if listed:
            from kubeskew.apimachinery.cel import types

            release = services.features.expressions
            environment = expressions.environment(release, params=params)
            self._expressions = [
                Expression(condition.get("expression") or "", environment, (types.BOOL,))
                for condition in listed
            ]

    async def hold(self, attributes: Attributes, invocation: Invocation, versioned: Versioned) -> bool:
        """Raises 403 if the conditions cannot be evaluated and `fails` is set."""
        if not self._expressions:
            return True
        objects = await versioned.object(invocation), await versioned.old(invocation)
        bound = expressions.bindings(self._services, attributes, invocation, objects)
        holds, error = await offload_if_costly(lambda: self.decide(bound))
        if error:
            resource = (attributes.requested or attributes.resource).group_resource
            raise forbidden(resource, attributes.name, error)
        return holds

    def decide(self, bound: Mapping[str, Any]) -> tuple[bool, str]:
        """The second value is the text of an error; with one, the first means nothing."""
        problems: list[str] = []
        budget = expressions.CONDITIONS_BUDGET
        for expression in self._expressions:
            try:
                outcome, budget = expression.evaluate(bound, budget)
            except BudgetSpentError as error:
                return False, f"failed to evaluate match condition: {error}" if self._fails else ""
            if outcome.error:
                problems.append(outcome.error)
            elif outcome.value is not True:
                return False, ""
        if not problems:
            return True, ""
        if not self._fails:
            return False, ""
        texts = list(dict.fromkeys(problems))
        return False, texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
