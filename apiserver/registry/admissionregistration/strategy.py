"""Holds the strategies of the kinds that configure admission: webhooks, policies, bindings.

Source: k8s.io/kubernetes/pkg/registry/admissionregistration/*/strategy.go, 1.36.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.admissionregistration import expression_checks
from kubeskew.apiserver.registry.admissionregistration.param_access import (
    param_kind_errors,
    param_ref_errors,
)
from kubeskew.apiserver.registry.admissionregistration.policy_validation import (
    Checks,
    binding_errors,
    mutating_policy_errors,
    validating_policy_errors,
)
from kubeskew.apiserver.registry.admissionregistration.webhook_validation import (
    WebhookValidationOptions,
    webhooks_errors,
)
from kubeskew.apiserver.registry.generic.builtin import MetadataKeptStatus, WithGenerationConditionalUpdate
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext

_GROUP = "admissionregistration.k8s.io"


class ValidatingWebhooksStrategy(WithGenerationConditionalUpdate):
    """ValidatingWebhookConfiguration."""

    update_checks = (Check.METADATA, Check.STRUCTURE, Check.CHANGE)
    core_metadata = False
    mutating = False
    weight = 16

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(obj, ctx, None)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, ctx, old)

    def _errors(self, obj: Object, ctx: StrategyContext, old: Object | None) -> list[FieldError]:
        known = expression_checks.webhook_expressions(old or {})
        check = expression_checks.condition_check(ctx.features.expressions, known)
        lenient = WebhookValidationOptions.of(old) if old is not None else None
        return list(webhooks_errors(obj, check, mutating=self.mutating, lenient=lenient))


class MutatingWebhooksStrategy(ValidatingWebhooksStrategy):
    """MutatingWebhookConfiguration."""

    mutating = True


class _PolicyStrategy(WithGenerationConditionalUpdate, ABC):
    """Either kind of policy; its writer must be allowed to read its parameters."""

    weight = 16
    mutating: ClassVar[bool] = False

    @abstractmethod
    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]:
        """Checks the kind's own rules."""

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        checks = self._checks(obj.get("spec") or {}, None, ctx)
        return list(self.errors(obj, checks)) or list(param_kind_errors(obj, ctx))

    def _checks(self, spec: Object, old: Object | None, ctx: StrategyContext) -> Checks:
        checks = expression_checks.policy_checks(ctx.features.expressions, spec, old, mutating=self.mutating)
        return replace(checks, longer_texts=ctx.features.admission.longer_texts)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        checks = self._checks(spec, was, ctx)
        found = list(self.errors(new, checks))
        if found or spec.get("paramKind") == was.get("paramKind"):
            return found
        return list(param_kind_errors(new, ctx))


class ValidatingPolicyStrategy(_PolicyStrategy):
    """ValidatingAdmissionPolicy."""

    status: ClassVar[type[Strategy]] = MetadataKeptStatus

    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]:
        return validating_policy_errors(obj, checks)


class MutatingPolicyStrategy(_PolicyStrategy):
    """MutatingAdmissionPolicy."""

    mutating = True

    def errors(self, obj: Object, checks: Checks) -> Iterator[FieldError]:
        return mutating_policy_errors(obj, checks)


class ValidatingBindingStrategy(WithGenerationConditionalUpdate):
    """ValidatingAdmissionPolicyBinding."""

    validating: ClassVar[bool] = True
    policies: ClassVar[str] = "validatingadmissionpolicies"

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        found = list(binding_errors(obj, ctx.features.admission, validating=self.validating))
        return found or list(param_ref_errors(obj, self.policies, ctx))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        found = list(binding_errors(new, ctx.features.admission, validating=self.validating))
        spec, was = new.get("spec") or {}, old.get("spec") or {}
        same = all(spec.get(name) == was.get(name) for name in ("paramRef", "policyName"))
        return found if found or same else list(param_ref_errors(new, self.policies, ctx))


class MutatingBindingStrategy(ValidatingBindingStrategy):
    """MutatingAdmissionPolicyBinding."""

    validating = False
    policies = "mutatingadmissionpolicies"
