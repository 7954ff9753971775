"""Sets the defaults of PersistentVolume objects.

Source: pkg/apis/core/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import volume_source


def persistent_volume(obj: Object, _: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill(struct(obj, "status"), phase="Pending")
    fill(spec, persistentVolumeReclaimPolicy="Retain")
    fill_null(spec, volumeMode="Filesystem")
    volume_source(spec)
