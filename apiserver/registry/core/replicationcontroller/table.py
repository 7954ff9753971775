"""Makes the cells that `kubectl get` shows of ReplicationController objects.

Source: pkg/printers/internalversion/printers.go, 1.36.
"""

from kubeskew.apiserver.registry.tables.subjects import (
    Cells,
    Subject,
    containers,
    labels,
)


def replication_controller(subject: Subject) -> Cells:
    return {
        "Desired": subject.number("spec", "replicas"),
        "Current": subject.number("status", "replicas"),
        "Ready": subject.number("status", "readyReplicas"),
        **containers(subject.at("spec", "template")),
        "Selector": labels(subject.at("spec", "selector")),
    }
