"""Sets the defaults of DeviceTaintRule objects.

Source: pkg/apis/resource/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)


def taint_rule(obj: Object, ctx: DefaultingContext) -> None:
    fill_null(struct(struct(obj, "spec"), "taint"), timeAdded=ctx.timestamp)
