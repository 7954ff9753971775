"""Sets the defaults of VolumeAttachment objects.

Source: pkg/apis/storage/v1/defaults.go, 1.36.
"""

from kubeskew.apimachinery.objects import Object
from kubeskew.apiserver.registry.defaulting.context import (
    DefaultingContext,
)
from kubeskew.apiserver.registry.shared.podtemplate.defaults import volume_source


def volume_attachment(obj: Object, _: DefaultingContext) -> None:
    volume = ((obj.get("spec") or {}).get("source") or {}).get("inlineVolumeSpec")
    if volume is not None:
        volume_source(volume)
