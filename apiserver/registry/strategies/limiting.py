"""Resource quotas and limit ranges. Source: resourcequota and limitrange of pkg/registry/core, 1.36."""

from kubeskew.apimachinery.errors import GroupResource, Object
from kubeskew.apimachinery.field import FieldError
from kubeskew.apiserver.registry.strategies.shared import BuiltIn, CreatedByUpdate, SpecKeptStatus
from kubeskew.apiserver.registry.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.validation import limit_ranges, quotas


class QuotaStatus(SpecKeptStatus):
    """What is used is the controller's and admission's to say."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(quotas.status_errors(new.get("status") or {}))


class QuotaStrategy(BuiltIn):
    """The scopes never change."""

    status = QuotaStatus
    returns_deleted_object = True

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return quotas.quota_errors(obj)

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(quotas.update_errors(new, old))


class LimitRangeStrategy(CreatedByUpdate):
    """One without a name gets a uid for it."""

    asks_of_changes = False
    asks_as_new = 1

    def prepare_for_create(self, obj: Object, ctx: StrategyContext) -> None:
        super().prepare_for_create(obj, ctx)
        if not obj["metadata"].get("name"):
            obj["metadata"]["name"] = ctx.entropy.uid()

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(limit_ranges.limit_range_errors(obj.get("spec") or {}))


STRATEGIES: dict[GroupResource, type[Strategy]] = {
    GroupResource("", "resourcequotas"): QuotaStrategy,
    GroupResource("", "limitranges"): LimitRangeStrategy,
}
