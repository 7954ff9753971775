"""Sets the defaults of IngressClass objects.

Source: pkg/apis/networking/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)


def ingress_class(obj: Object, _: DefaultingContext) -> None:
    parameters = struct(obj, "spec").get("parameters")
    if parameters is not None:
        fill_null(parameters, scope="Cluster")
