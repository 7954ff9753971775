"""Sets the defaults of Endpoints objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    each,
    fill,
)


def endpoints(obj: Object, _: DefaultingContext) -> None:
    for subset in each(obj, "subsets"):
        for port in each(subset, "ports"):
            fill(port, protocol="TCP")
