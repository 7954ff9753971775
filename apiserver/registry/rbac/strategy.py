"""Decides how roles and bindings are written.

Source: pkg/registry/rbac/*/strategy.go, 1.36.
"""

from kubeskew.apimachinery import names
from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenValidation
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.rbac import validation as rbac_validation

_CHECKED_TWICE = (
    Check.OWN_RULES,
    Check.OWN_RULES,
    Check.CHANGE,
    Check.METADATA,
    Check.METADATA,
    Check.METADATA_CHANGE,
)


class RoleStrategy(HandwrittenValidation, CreatedByUpdate):
    """Names need only be one segment of a path. Nothing of a role is kept from changing."""

    update_checks = _CHECKED_TWICE

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return rbac_validation.role(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return []


class BindingStrategy(HandwrittenValidation, CreatedByUpdate):
    """Validates bindings as roles; their roleRef may not change."""

    update_checks = _CHECKED_TWICE

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return rbac_validation.binding(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return rbac_validation.binding_update(new, old)
