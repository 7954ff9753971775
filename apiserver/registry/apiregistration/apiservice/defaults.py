"""Sets the defaults of APIService objects.

Source: pkg/apis/apiregistration/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)

_PORT = 443


def _service(client: Object) -> None:
    if client.get("service") is not None:
        fill_null(client["service"], port=_PORT)


def api_service(obj: Object, _: DefaultingContext) -> None:
    _service(struct(obj, "spec"))
