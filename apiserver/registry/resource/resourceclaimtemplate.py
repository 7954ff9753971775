"""ResourceClaimTemplate: defaults, strategy and cells of tables.

Source: pkg/registry/resource/resourceclaimtemplate/strategy.go, 1.36.
"""

from kubeskew.apimachinery.field import FieldError
from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting import DefaultingContext, struct
from kubeskew.apiserver.registry.generic.strategy import UPDATE_AS_NEW, Check, StrategyContext
from kubeskew.apiserver.registry.resource.resourceclaim.strategy import ClaimStrategy, default_claim_spec
from kubeskew.apiserver.registry.shared.volumes.claims import template_metadata_errors


def default_template(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(struct(obj, "spec"), "spec"), inline=False, rules=ctx.features.devices)


def default_inline_template(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(struct(obj, "spec"), "spec")
    default_claim_spec(spec, inline=True, rules=ctx.features.devices)


class ClaimTemplateStrategy(ClaimStrategy):
    _spec = ("spec", "spec")
    spec_type = "resource.ResourceClaimTemplateSpec"
    changed_checks = (Check.METADATA, *UPDATE_AS_NEW)

    def _errors(self, obj: Object, ctx: StrategyContext, *, stored: bool) -> list[FieldError]:
        metadata = (obj.get("spec") or {}).get("metadata", {})
        errors = list(template_metadata_errors(metadata, "spec.metadata"))
        return errors + super()._errors(obj, ctx, stored=stored)
