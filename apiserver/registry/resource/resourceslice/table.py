"""Makes the cells that `kubectl get` shows of ResourceSlice objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def resource_slice(subject: Subject) -> Cells:
    return {
        # v1alpha2 has no spec
        "Node": subject.text("spec", "nodeName", default=subject.text("nodeName")),
        "Driver": subject.text("spec", "driver", default=subject.text("driverName")),
        "Pool": subject.text("spec", "pool", "name"),
    }
