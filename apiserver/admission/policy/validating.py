"""Applies ValidatingAdmissionPolicies: refuses, warns or notes in the audit log, by CEL.

Source: k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go, 1.36.
"""

from typing import Any, NamedTuple

from kubeskew.apimachinery.errors import StatusError, forbidden
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.admission import CONNECT, CREATE, DELETE, UPDATE, Attributes, Plugin
from kubeskew.apiserver.admission.dynamic import expressions
from kubeskew.apiserver.admission.dynamic.matching import EXEMPT, Invocation
from kubeskew.apiserver.admission.dynamic.versions import Versioned
from kubeskew.apiserver.admission.policy.decisions import INVALID, Evaluator, PolicyDecision, Result
from kubeskew.apiserver.admission.policy.model import Binding, Policies, Policy
from kubeskew.apiserver.admission.policy.parameters import ConfigurationError, collect, param_resource
from kubeskew.apiserver.admission.services import AdmissionServices
from kubeskew.apiserver.caching.offload import offload_if_costly
from kubeskew.apiserver.storage.encoding import dumps

_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_MAX_ANNOTATION = 10 * 1024


class Denial(NamedTuple):
    """Holds the denier and the message of a denial; `binding` is empty where the policy itself is
    at fault.
    """

    policy: str
    binding: str
    message: str
    reason: str = ""


class ValidatingAdmissionPolicy(Plugin):
    """Evaluates every policy that is bound and matches."""

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
    """Applies the binding's actions (or those `implied`) to denials; returns those that refuse the
    request."""
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
