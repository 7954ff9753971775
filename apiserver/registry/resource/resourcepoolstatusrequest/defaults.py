"""Sets the defaults of ResourcePoolStatusRequest objects.

Source: pkg/apis/resource/v1alpha3/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)

_STATUS_REQUEST_LIMIT = 100


def status_request(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), limit=_STATUS_REQUEST_LIMIT)
