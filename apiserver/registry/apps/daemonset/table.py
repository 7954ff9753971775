"""Makes the cells that `kubectl get` shows of DaemonSet objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    labels,
)
from kubeskew.apiserver.registry.tables.workloads import pod_cells


def daemon_set(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("status", "desiredNumberScheduled"),
        "Current": subject.number("status", "currentNumberScheduled"),
        "Ready": subject.number("status", "numberReady"),
        "Up-to-date": subject.number("status", "updatedNumberScheduled"),
        "Available": subject.number("status", "numberAvailable"),
        "Node Selector": labels(subject.at("spec", "template", "spec", "nodeSelector")),
        **pod_cells(subject),
    }
