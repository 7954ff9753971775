"""Sets the defaults of CSIDriver objects.

Source: pkg/apis/storage/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
    fill,
    fill_null,
    struct,
)


def csi_driver(obj: Object, ctx: DefaultingContext) -> None:
    spec = struct(obj, "spec")
    fill_null(
        spec,
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        requiresRepublish=False,
    )
    fill(spec, volumeLifecycleModes=["Persistent"])
    if ctx.features.volumes.selinux_mounts:
        fill_null(spec, seLinuxMount=False)
