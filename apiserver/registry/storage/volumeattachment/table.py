"""Makes the cells that `kubectl get` shows of VolumeAttachment objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)


def volume_attachment(subject: Subject) -> Cells:
    return {
        "Attacher": subject.text("spec", "attacher"),
        "PV": subject.text("spec", "source", "persistentVolumeName"),
        "Node": subject.text("spec", "nodeName"),
        "Attached": bool(subject.at("status", "attached")),
    }
