"""Sets the defaults of ResourceSlice objects.

Source: pkg/apis/resource/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill_null,
    struct,
)


def slice_(obj: Object, ctx: DefaultingContext) -> None:
    for device in each(struct(obj, "spec"), "devices"):
        inner = device.get("basic") or device
        for taint in each(inner, "taints"):
            fill_null(taint, timeAdded=ctx.timestamp)
        for mapping in (inner.get("nodeAllocatableResourceMappings") or {}).values():
            fill_null(mapping, allocationMultiplier="1")
