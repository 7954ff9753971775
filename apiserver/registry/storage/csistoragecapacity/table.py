"""Makes the cells that `kubectl get` shows of CSIStorageCapacity objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    UNSET,
    Cells,
    Subject,
    quantity,
)


def csi_storage_capacity(subject: Subject) -> Cells:
    capacity = subject.at("capacity")
    return {
        "StorageClassName": subject.text("storageClassName"),
        "Capacity": UNSET if capacity is None else quantity(capacity),
    }
