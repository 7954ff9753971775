"""Makes the cells that `kubectl get` shows of ResourceSlice objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_slice(subject: Subject) -> Cells:
    return {
        "Node": subject.text("spec", "nodeName"),
        "Driver": subject.text("spec", "driver"),
        # v1alpha2 has no spec
        "NodeName": subject.text("nodeName"),
        "DriverName": subject.text("driverName"),
        "Pool": subject.text("spec", "pool", "name"),
    }
