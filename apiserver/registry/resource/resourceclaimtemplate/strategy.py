"""Decides how ResourceClaimTemplates are written.

Source: pkg/registry/resource/resourceclaimtemplate/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.generic.check_order import UPDATE_AS_NEW, Check
from kubeskew.apiserver.registry.generic.strategy import StrategyContext
from kubeskew.apiserver.registry.resource.classic import validation as classic_validation
from kubeskew.apiserver.registry.resource.resourceclaim.strategy import ClaimStrategy
from kubeskew.apiserver.registry.shared.template_metadata import template_metadata_errors


class ClaimTemplateStrategy(ClaimStrategy):
    _spec = ("spec", "spec")
    spec_type = "resource.ResourceClaimTemplateSpec"
    changed_checks = (Check.METADATA, *UPDATE_AS_NEW)

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        metadata = (obj.get("spec") or {}).get("metadata") or {}
        errors = list(template_metadata_errors(metadata, "spec.metadata"))
        return errors + super()._errors(obj, ctx, stored=stored)

    def _classic_errors(self, obj: Object) -> list[FieldError]:
        return list(classic_validation.template_errors(obj.get("spec") or {}))
