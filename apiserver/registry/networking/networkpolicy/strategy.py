"""Decides how NetworkPolicies are written.

Source: pkg/registry/networking/networkpolicy/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check, Checks
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.networking.networkpolicy import validation as networkpolicy_validation


class NetworkPolicyStrategy(ValidatedAsNew, WithGeneration):
    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        strict = ctx.features.strict_addresses
        return list(networkpolicy_validation.policy_errors(obj.get("spec") or {}, strict=strict))

    def update_checks_for(self, ctx: StrategyContext) -> Checks:
        """Returns the checks: since 1.36 those of the change alone, which are the same as of a new policy."""
        if ctx.resource.storage_resource in ctx.features.requests.checked_once:
            return (Check.METADATA_CHANGE, Check.CHANGE)
        return super().update_checks_for(ctx)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        strict, known = ctx.features.strict_addresses, networkpolicy_validation.ranges(old.get("spec") or {})
        return list(networkpolicy_validation.policy_errors(new.get("spec") or {}, strict=strict, known=known))

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        return networkpolicy_validation.policy_warnings(obj.get("spec") or {})
