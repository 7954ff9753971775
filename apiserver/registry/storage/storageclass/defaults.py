"""Sets the defaults of StorageClass objects.

Source: pkg/apis/storage/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill_null,
)


def storage_class(obj: Object, _: DefaultingContext) -> None:
    fill_null(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")
