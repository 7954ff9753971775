"""What configures admission: webhooks, policies, bindings.

Source: k8s.io/kubernetes/pkg/registry/admissionregistration/*/strategy.go, 1.36.
"""

from apimachinery.errors import GroupResource, Object
from apimachinery.field import FieldError
from apiserver.admission.policies import checking
from apiserver.registry.strategies.shared import Counted
from apiserver.registry.strategy import Strategy, StrategyContext
from apiserver.registry.validation.admission_policies import (
    binding_errors,
    mutating_policy_errors,
    validating_policy_errors,
)
from apiserver.registry.validation.webhook_configurations import Leniency, webhooks_errors

_GROUP = "admissionregistration.k8s.io"


class ValidatingWebhooksStrategy(Counted):
    """ValidatingWebhookConfiguration."""

    mutating = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, ctx, None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, ctx, old)

    def _errors(self, obj: Object, ctx: StrategyContext, old: Object | None) -> list[FieldError]:
        known = checking.webhook_expressions(old or {})
        check = checking.condition_check(ctx.version.minor, known)
        lenient = Leniency.of(old) if old is not None else None
        return list(webhooks_errors(obj, check, mutating=self.mutating, lenient=lenient))


class MutatingWebhooksStrategy(ValidatingWebhooksStrategy):
    """MutatingWebhookConfiguration."""

    mutating = True


class ValidatingPolicyStrategy(Counted):
    """ValidatingAdmissionPolicy."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = checking.policy_checks(ctx.version.minor, obj.get("spec") or {}, None)
        return list(validating_policy_errors(obj, checks))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = checking.policy_checks(ctx.version.minor, new.get("spec") or {}, old.get("spec"))
        return list(validating_policy_errors(new, checks))


class MutatingPolicyStrategy(Counted):
    """MutatingAdmissionPolicy."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = checking.policy_checks(ctx.version.minor, obj.get("spec") or {}, None)
        return list(mutating_policy_errors(obj, checks))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = checking.policy_checks(ctx.version.minor, new.get("spec") or {}, old.get("spec"))
        return list(mutating_policy_errors(new, checks))


class ValidatingBindingStrategy(Counted):
    """ValidatingAdmissionPolicyBinding."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(binding_errors(obj, validating=True))


class MutatingBindingStrategy(Counted):
    """MutatingAdmissionPolicyBinding."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(binding_errors(obj, validating=False))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource(_GROUP, "validatingwebhookconfigurations"): ValidatingWebhooksStrategy,
    GroupResource(_GROUP, "mutatingwebhookconfigurations"): MutatingWebhooksStrategy,
    GroupResource(_GROUP, "validatingadmissionpolicies"): ValidatingPolicyStrategy,
    GroupResource(_GROUP, "validatingadmissionpolicybindings"): ValidatingBindingStrategy,
    GroupResource(_GROUP, "mutatingadmissionpolicies"): MutatingPolicyStrategy,
    GroupResource(_GROUP, "mutatingadmissionpolicybindings"): MutatingBindingStrategy,
}
