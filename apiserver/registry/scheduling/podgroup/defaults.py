"""Sets the defaults of PodGroup objects.

Source: pkg/apis/scheduling/v1alpha3/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
    struct,
)


def pod_group_mode_name(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode="Pod")


def pod_group_mode(obj: Object, _: DefaultingContext) -> None:
    fill_null(struct(obj, "spec"), disruptionMode={"single": {}})
