"""Decides how IngressClasses are written.

Source: pkg/registry/networking/ingressclass/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.networking.ingressclass import validation as ingressclass_validation


class IngressClassStrategy(HandwrittenBuiltIn, WithGeneration):
    update_checks = (Check.METADATA_CHANGE, Check.CHANGE, Check.METADATA, Check.OWN_RULES)

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        texts = ctx.features.services.reference_texts
        return list(ingressclass_validation.class_errors(obj.get("spec") or {}, texts=texts))

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ingressclass_validation.class_update_errors(new, old))
