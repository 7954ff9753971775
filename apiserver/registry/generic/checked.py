"""Holds strategies of kinds with complete rules of their own, as upstream's Validate and ValidateUpdate."""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext


class OwnRules(Strategy):
    """Checks by the kind's own rules alone: none follows from the schema."""

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        return [*metadata, *self.validate(obj, ctx)]

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return [*metadata, *self.validate_update(new, old, ctx)]

    def as_new(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        """Returns the faults that the object would have if it were new: many kinds check changes for them,
        too.
        """
        return self.check_new(obj, ctx, self.metadata_errors(obj, ctx))


class Checked(OwnRules, BuiltIn):
    """A built-in kind with rules of its own."""


class CheckedAsNew(Checked):
    """A kind whose changes are looked at twice: as new objects, and as changes."""

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return [*self.as_new(new, ctx), *metadata, *self.validate_update(new, old, ctx)]


class WithoutMetadata(OwnRules):
    """A kind that does not look at its metadata: only what holds for all is asked of it."""

    def check_new(self, obj: Object, ctx: StrategyContext, metadata: list[FieldError]) -> list[FieldError]:
        return self.validate(obj, ctx)

    def check_change(
        self, new: Object, old: Object, ctx: StrategyContext, metadata: list[FieldError]
    ) -> list[FieldError]:
        return self.validate_update(new, old, ctx)
