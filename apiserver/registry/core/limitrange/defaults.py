"""Sets the defaults of LimitRange objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    struct,
)


def limit_range(obj: Object, _: DefaultingContext) -> None:
    for item in each(struct(obj, "spec"), "limits"):
        if item.get("type") != "Container":
            continue
        default = {**(item.get("max") or {}), **(item.get("default") or {})}
        request = {**(item.get("min") or {}), **default, **(item.get("defaultRequest") or {})}
        for name, amounts in (("default", default), ("defaultRequest", request)):
            if amounts:
                item[name] = amounts
