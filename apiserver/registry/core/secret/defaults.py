"""Sets the defaults of Secret objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
)


def secret(obj: Object, _: DefaultingContext) -> None:
    fill(obj, type="Opaque")
