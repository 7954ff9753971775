"""Makes the cells that `kubectl get` shows of Scale objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import Cells, Subject


def scale(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Available": subject.number("status", "replicas"),
    }
