"""Lets a kind's own rules say all that is required, before its metadata is looked at."""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class _OwnRules(Strategy):
    """All that is required is said by the kind's own rules, in their order."""

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        return [*metadata, *self.validate(obj, ctx)]

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return [*self.validate_update(new, old, ctx), *metadata]
