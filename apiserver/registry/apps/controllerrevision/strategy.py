"""Decides how ControllerRevisions are written.

Source: pkg/registry/apps/controllerrevision/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError, invalid, required
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import BuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.shared import workloads


class ControllerRevisionStrategy(BuiltIn):
    """Keeps a revision as it was: the template of a set at some time never changes."""

    metadata_checked_as_new = 1

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = [] if obj.get("data") is not None else [required("data", "data is mandatory")]
        errors += workloads.not_negative(obj, "", "revision")
        return errors

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        errors = self.validate(new, ctx)
        if new.get("data") != old.get("data"):
            errors.append(invalid("data", new.get("data"), "field is immutable"))
        return errors
