"""Makes the cells that `kubectl get` shows of CSINode objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def csi_node(subject: Subject) -> Cells:
    return {"Drivers": subject.count("spec", "drivers")}
