"""Decides how ResourceQuotas are written.

Source: pkg/registry/core/resourcequota/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.core.resourcequota import validation as resourcequota_validation
from kubeskew.apiserver.registry.generic.builtin import BuiltIn, SpecKeptStatus
from kubeskew.apiserver.registry.generic.strategy import StrategyContext


class QuotaStatus(SpecKeptStatus):
    """Validates the status of a quota, which the controller and admission write."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(resourcequota_validation.status_errors(new.get("status") or {}))


class QuotaStrategy(BuiltIn):
    """The scopes never change."""

    status = QuotaStatus
    returns_deleted_object = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return resourcequota_validation.quota_errors(obj)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(resourcequota_validation.update_errors(new, old))
