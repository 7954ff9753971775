"""Sets the defaults of FlowSchema objects.

Source: pkg/apis/flowcontrol/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    struct,
)


def flow_schema(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "spec"), matchingPrecedence=1000)
