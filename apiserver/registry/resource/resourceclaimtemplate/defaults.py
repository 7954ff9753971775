"""Sets the defaults of ResourceClaimTemplate objects.

Source: pkg/apis/resource/v1alpha2/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    struct,
)
from kubeskew.apiserver.registry.resource.resourceclaim.defaults import default_claim_spec


def template(obj: Object, ctx: DefaultingContext) -> None:
    default_claim_spec(struct(struct(obj, "spec"), "spec"), inline=False, rules=ctx.features.devices)


def inline_template(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(struct(obj, "spec"), "spec")
    default_claim_spec(spec, inline=True, rules=ctx.features.devices)


def classic_template(obj: Object, _: DefaultingContext) -> None:
    fill(struct(struct(obj, "spec"), "spec"), allocationMode="WaitForFirstConsumer")
