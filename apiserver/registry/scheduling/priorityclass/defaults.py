"""Sets the defaults of PriorityClass objects.

Source: pkg/apis/scheduling/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
)


def priority_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, preemptionPolicy="PreemptLowerPriority")
