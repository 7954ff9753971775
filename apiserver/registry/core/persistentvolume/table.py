"""Makes the cells that `kubectl get` shows of PersistentVolume objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    quantity,
)
from kubeskew.apiserver.registry.tables.volumes import access_modes, volume_cells


def persistent_volume(subject: Subject) -> Cells:
    claim = subject.at("spec", "claimRef")
    return {
        **volume_cells(subject),
        "Capacity": quantity(subject.at("spec", "capacity", "storage")),
        "Access Modes": access_modes(subject.items("spec", "accessModes")),
        "Reclaim Policy": subject.text("spec", "persistentVolumeReclaimPolicy"),
        "Claim": "" if claim is None else f"{claim.get('namespace', '')}/{claim.get('name', '')}",
        "Reason": subject.text("status", "reason"),
    }
