"""Sets the defaults of EndpointSlice objects.

Source: pkg/apis/discovery/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill_null,
)


def endpoint_slice(obj: Object, _: DefaultingContext) -> None:
    for port in each(obj, "ports"):
        fill_null(port, name="", protocol="TCP")
