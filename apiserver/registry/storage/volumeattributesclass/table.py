"""Makes the cells that `kubectl get` shows of VolumeAttributesClass objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def volume_attributes_class(subject: Subject) -> Cells:
    return {"DriverName": subject.text("driverName")}
