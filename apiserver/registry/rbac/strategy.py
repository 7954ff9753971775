"""Decides how roles and bindings are written.

Source: pkg/registry/rbac/*/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apimachinery.validation import names
from kubeskew.apiserver.registry.generic.builtin import CreatedByUpdate
from kubeskew.apiserver.registry.generic.own_rules import _OwnRules
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.rbac import validation as rbac_validation


class RoleStrategy(_OwnRules, CreatedByUpdate):
    """Names need only be one segment of a path. A change is checked twice, so each fault is told twice."""

    metadata_checked_as_new = 2

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return rbac_validation.role(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self.validate(new, ctx) * 2


class BindingStrategy(_OwnRules, CreatedByUpdate):
    """Validates bindings as roles; their roleRef may not change."""

    metadata_checked_as_new = 2

    def name_check(self, name: str, prefix: bool) -> list[str]:
        return names.path_segment(name, prefix)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return rbac_validation.binding(obj, namespaced=ctx.resource.namespaced)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return [
            *self.validate(new, ctx),
            *rbac_validation.binding_update(new, old, namespaced=ctx.resource.namespaced),
        ]
