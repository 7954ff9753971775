"""Decides how RuntimeClasses are written.

Source: pkg/registry/node/runtimeclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.handwritten_validation import ValidatedAsNew
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.node.runtimeclass import validation as runtimeclass_validation


class RuntimeClassStrategy(ValidatedAsNew):
    core_metadata = False
    allow_create_on_update = True
    allow_unconditional_update = False

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        wanted = ctx.features.requests.handlers_required
        return list(runtimeclass_validation.runtime_class_errors(obj, handler_required=wanted))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(runtimeclass_validation.runtime_class_update_errors(new, old))
