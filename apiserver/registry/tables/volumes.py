"""Makes cells of volumes and their claims: capacity, access modes, class."""

from typing import Any

from kubeskew.apiserver.registry.tables.subjects import (
    UNSET,
    Cells,
    Subject,
    at,
)

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}

_CLASS = "volume.beta.kubernetes.io/storage-class"


def volume_cells(subject: Subject) -> Cells:
    """Returns the cells that volumes and claims have in common."""
    annotations = subject.at("metadata", "annotations")
    return {
        "Status": "Terminating" if subject.deleted else subject.text("status", "phase"),
        "StorageClass": str(_first(at(annotations, _CLASS), subject.at("spec", "storageClassName"), "")),
        "VolumeAttributesClass": subject.text("spec", "volumeAttributesClassName", default=UNSET),
        "VolumeMode": subject.text("spec", "volumeMode", default=UNSET),
    }


def _first(*values: Any) -> Any:
    """Returns the first value that is there, be it empty."""
    return next(value for value in values if value is not None)


def access_modes(modes: list[str]) -> str:
    return ",".join(short for mode, short in _MODES.items() if mode in modes)
