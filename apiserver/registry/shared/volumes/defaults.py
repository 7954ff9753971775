"""Sets the defaults of PersistentVolumeClaim objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)


def persistent_volume_claim(obj: Object, _: DefaultingContext) -> None:
    fill(struct(obj, "status"), phase="Pending")
    fill_null(struct(obj, "spec"), volumeMode="Filesystem")
