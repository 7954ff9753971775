"""Makes the cells that `kubectl get` shows of PersistentVolumeClaim objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    quantity,
)
from kubeskew.apiserver.registry.tables.volumes import access_modes, volume_cells


def persistent_volume_claim(subject: Subject) -> Cells:
    volume = subject.text("spec", "volumeName")
    return {
        **volume_cells(subject),
        "Volume": volume,
        "Capacity": quantity(subject.at("status", "capacity", "storage")) if volume else "",
        "Access Modes": access_modes(subject.items("status", "accessModes")) if volume else "",
    }
