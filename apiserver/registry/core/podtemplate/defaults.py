"""Sets the defaults of PodTemplate objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import template


def pod_template(obj: Object, ctx: DefaultingContext) -> None:
    template(obj, ctx)
