"""Sets the defaults of APIService objects.

Source: pkg/apis/apiregistration/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    struct,
)
from kubeskew.apiserver.registry.shared.service_references import default_service_port


def api_service(obj: Object, _: DefaultingContext) -> None:
    default_service_port(struct(obj, "spec"))
