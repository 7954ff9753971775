"""Decides how Ingresses are written.

Source: pkg/registry/networking/ingress/strategy.go, 1.36.
"""

from typing import ClassVar

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.builtin import SpecKeptStatus, WithGeneration
from kubeskew.apiserver.registry.generic.check_order import Check
from kubeskew.apiserver.registry.generic.handwritten_validation import HandwrittenBuiltIn
from kubeskew.apiserver.registry.generic.strategy import Strategy, StrategyContext
from kubeskew.apiserver.registry.networking.ingress import validation as ingress_validation


class IngressStatus(SpecKeptStatus):
    """Validates the load balancer in an ingress's status."""

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return list(ingress_validation.status_errors(new, old, strict=ctx.features.strict_addresses))


class IngressStrategy(HandwrittenBuiltIn, WithGeneration):
    update_checks = (Check.METADATA_CHANGE, Check.METADATA, Check.CHANGE)
    status: ClassVar[type[Strategy]] = IngressStatus

    def _errors(self, obj: Object, old: Object | None, ctx: StrategyContext) -> list[FieldError]:
        lenient = ingress_validation.IngressValidationOptions.of(
            old, relaxed=ctx.features.services.relaxed_names, texts=ctx.features.services.reference_texts
        )
        return list(ingress_validation.spec_errors(obj.get("spec") or {}, "spec", lenient))

    def validate(self, obj: Object, ctx: StrategyContext) -> list[FieldError]:
        return [*self._errors(obj, None, ctx), *ingress_validation.class_annotation_errors(obj)]

    def validate_update(self, new: Object, old: Object, ctx: StrategyContext) -> list[FieldError]:
        return self._errors(new, old, ctx)

    def warnings(self, obj: Object, ctx: StrategyContext) -> list[str]:
        annotated = ingress_validation.CLASS_ANNOTATION in (obj["metadata"].get("annotations") or {})
        if not annotated or obj["spec"].get("ingressClassName") is not None:
            return []
        name = ingress_validation.CLASS_ANNOTATION
        return [f"annotation \"{name}\" is deprecated, please use 'spec.ingressClassName' instead"]

    def update_warnings(self, new: Object, old: Object, ctx: StrategyContext) -> list[str]:
        return []
