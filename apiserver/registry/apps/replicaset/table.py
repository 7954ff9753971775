"""Makes the cells that `kubectl get` shows of ReplicaSet objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
)
from kubeskew.apiserver.registry.tables.workloads import pod_cells


def replica_set(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **pod_cells(subject),
    }
